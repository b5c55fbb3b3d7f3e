import { randomBytes } from "../../pkg/libc/mod.ts"
import type { Network } from "../../pkg/libcni/mod.ts"
import {
  askRoute,
  findLink,
  type Link,
  listAddresses,
  listRoutes,
  RouteSocket,
  RT_TABLE_MAIN,
} from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { AF_INET, contains, type Family, familyOf, parseCidr, parseIp } from "../../pkg/types/mod.ts"
import { addressOf, type Container, serverPort } from "./containers.ts"
import { hostServers } from "./dns.ts"
import type { Outsider } from "./outsider.ts"
import { type Patience, type Place, Server } from "./sockets.ts"

/** The addresses and servers that probes of one family use. */
export interface Scene {
  readonly family: Family
  readonly patience: Patience
  readonly host: Netns
  readonly a: Container
  readonly b: Container
  /** The other container's address, with the port of its server. */
  readonly peer: Place | undefined
  /** The secret that the test's server sends. Undefined if a server of the container listens on the port. */
  readonly secret: Uint8Array | undefined
  readonly gateway: Uint8Array | undefined
  readonly hostAddress: Uint8Array | undefined
  readonly hostGateway: Uint8Array | undefined
  /** The destination outside that the user requested. */
  readonly outside: Place | undefined
  readonly servers: readonly Uint8Array[]
  readonly name: string
  /** The host's address and port that are published for the second container. */
  readonly published: Place | undefined
  readonly outsider: Outsider | undefined
  /** The reason why the containers must not reach each other. */
  readonly isolated: string | undefined
}

export interface Wishes {
  readonly patience: Patience
  readonly outside: Place | undefined
  readonly name: string
  readonly isolated: string | undefined
}

/** Returns a family's scene with a server in the second container, or undefined if neither container has an address. */
export function setScene(
  family: Family,
  { patience, outside, name, isolated }: Wishes,
  [a, b]: readonly [Container, Container],
  { host, outsider, side }: { host: Netns; outsider: Outsider | undefined; side: HostSide },
): (Scene & Disposable) | undefined {
  const [own, other] = [addressOf(a, family), addressOf(b, family)]
  if (!own && !other) return undefined
  const server = other && Server.listen(b.netns, family, serverPort(b))
  const { gateway: hostGateway, address: hostAddress } = side
  const named = (a.result.dns.nameservers ?? []).flatMap((text) => parseIp(text) ?? [])
  return {
    family,
    patience,
    host,
    a,
    b,
    outsider,
    name,
    hostGateway,
    hostAddress,
    isolated,
    peer: other && { ip: other.ip, port: serverPort(b) },
    secret: server?.secret,
    gateway: own?.gateway,
    outside: outside && familyOf(outside.ip) === family ? outside : undefined,
    servers: (named.length > 0 ? named : hostServers()).filter((ip) => familyOf(ip) === family),
    published: b.published && hostAddress && { ip: hostAddress, port: b.published.hostPort },
    [Symbol.dispose]: () => server?.[Symbol.dispose](),
  }
}

/** Addresses of the host and its network that containers may reach. */
export interface HostSide {
  readonly gateway: Uint8Array | undefined
  readonly address: Uint8Array | undefined
}

/**
 * Reads the host's default gateway and the host's address toward it. Without such an address, returns another global
 * address of the host, preferably not the containers' gateway.
 */
export function readHostSide(family: Family, container: Container): HostSide {
  const bridge = addressOf(container, family)?.gateway?.toHex()
  using host = RouteSocket.open()
  const routes = listRoutes(host, family, { table: RT_TABLE_MAIN })
  const gateway = routes.find(
    ({ prefix, gateway: via, type }) => prefix === 0 && via !== undefined && type === 1,
  )?.gateway
  const route = gateway && askRoute(host, { dst: gateway })
  const towards = typeof route === "object" ? route.preferredSource?.toHex() : undefined
  const all = listAddresses(host).filter(({ ip, scope }) => familyOf(ip) === family && scope === 0)
  const found = all.find(({ ip }) => ip.toHex() === towards) ?? all.find(({ ip }) => ip.toHex() !== bridge) ?? all[0]
  return { gateway, address: found?.ip }
}

/** Reports whether a container has a route to an address: a subnet of its own, or a route of ADD's result. */
export function hasRoute({ result: { ips, routes } }: Container, ip: Uint8Array): boolean {
  const networks = [...ips.map(({ address }) => address), ...routes.map(({ dst }) => dst)]
  return networks.some((text) => {
    const cidr = parseCidr(text)
    return cidr !== undefined && contains(cidr, ip)
  })
}

/** Returns a container's interface inside its namespace, or undefined if the interface does not exist. */
export function linkOf({ netns, ifName }: Container): Link | undefined {
  using inside = netns.openRoute()
  return findLink(inside, ifName)
}

/** Returns the reason why this kind of interface never sends packets, or undefined for other interfaces. */
export function whySilent(container: Container): string | undefined {
  const { kind } = linkOf(container) ?? {}
  if (kind === "dummy") return "a dummy sends no packets"
  return kind === "tun" ? "a tap sends no packets until its process opens it" : undefined
}

/** Returns the reason why containers of a network must not reach each other, or undefined if they may. */
export function whyIsolated({ plugins }: Network): string | undefined {
  for (const { raw } of plugins) {
    if (raw.portIsolation === true) return 'the network has "portIsolation"'
    if (raw.ingressPolicy === "isolated") return 'the network has "ingressPolicy" "isolated"'
    if (raw.type === "macvlan" && raw.mode === "private") return 'the network has "mode" "private"'
  }
  return undefined
}

/** Returns a port of the host on which no program listens and that is not published for a container. */
export function freePort(taken: ReadonlySet<number>): number {
  using host = Netns.own()
  for (;;) {
    const [high = 0, low = 0] = randomBytes(2)
    const port = 20_000 + (((high << 8) | low) % 10_000) // below the kernel's ephemeral ports and the ports of Kubernetes services
    if (taken.has(port)) continue
    using server = Server.listen(host, AF_INET, port)
    if (server) return port
  }
}
