import { readTextFile } from "../../pkg/libc/mod.ts"
import {
  addAddress,
  addLink,
  addRoute,
  addVeth,
  findLink,
  getLink,
  IFF_LOOPBACK,
  IFF_UP,
  type Link,
  linkData,
  listAddresses,
  listLinks,
  listRoutes,
  RouteSocket,
  RT_TABLE_MAIN,
  setLink,
} from "../../pkg/netlink/mod.ts"
import { tryWriteSysctl } from "../../pkg/sysctl/mod.ts"
import { formatCidr, formatIp, parseCidr, parseIp } from "../../pkg/types/mod.ts"
import { STAND_IN } from "./namespace-state.ts"
import { type Rules, readIptables, readRules, writeIptables, writeRules } from "./rules.ts"

/** The state of the host that affects ADD's result, as JSON, for the private copy. */
export interface HostState {
  readonly links: readonly HostLink[]
  readonly routes: readonly HostRoute[]
  readonly sysctls: Readonly<Record<string, string>>
  /** The nftables rules. Undefined if the program `nft` is not installed. */
  readonly rules: Rules | undefined
  readonly iptables: Readonly<Record<string, string>>
}

interface HostLink {
  readonly name: string
  readonly kind: string
  readonly mac: string
  readonly mtu: number
  readonly isUp: boolean
  readonly addresses: readonly string[]
  readonly vlanFiltering: boolean
}

interface HostRoute {
  readonly dst: string
  readonly gateway: string | undefined
  readonly dev: string
  readonly metric: number | undefined
}

/** Sysctls of the host that ADD may change. */
export const watchedSysctls = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"]

/** Reads the host's bridges, links with addresses, and the links in `named`. Skips host ends without addresses. */
export function readHost(named: ReadonlySet<string>): HostState {
  using route = RouteSocket.open()
  const addresses = listAddresses(route)
  const links = listLinks(route)
  const of = (link: Link) => addresses.filter(({ index, scope }) => index === link.index && scope === 0)
  const isWanted = (link: Link) =>
    (link.flags & IFF_LOOPBACK) === 0 && (link.kind === "bridge" || named.has(link.name) || of(link).length > 0)
  const nameOf = (index: number | undefined) => links.find((link) => link.index === index)?.name
  const routes = listRoutes(route, undefined, { table: RT_TABLE_MAIN })
  return {
    links: links.filter(isWanted).map((link) => ({
      name: link.name,
      kind: link.kind,
      mac: link.mac,
      mtu: link.mtu,
      isUp: (link.flags & IFF_UP) !== 0,
      addresses: of(link).map(formatCidr),
      vlanFiltering: linkData(link, "bridge")?.vlanFiltering === 1,
    })),
    routes: routes.flatMap(({ dst, prefix, gateway, index, priority, type, protocol }) => {
      const dev = nameOf(index)
      if (type !== 1 || protocol === 2 || dev === undefined) return [] // the kernel creates these routes from the addresses
      return [{ dst: formatCidr({ ip: dst, prefix }), gateway: gateway && formatIp(gateway), dev, metric: priority }]
    }),
    sysctls: readSysctls(),
    rules: readRules(),
    iptables: readIptables(),
  }
}

/** Returns the values of `watchedSysctls` in this namespace. Skips those that do not exist. */
export function readSysctls(): Record<string, string> {
  return Object.fromEntries(
    watchedSysctls.flatMap((key) => {
      try {
        return [[key, readTextFile(`/proc/sys/${key}`).trim()]]
      } catch {
        return [] // the kernel has no IPv6
      }
    }),
  )
}

/** Creates the host's state in this namespace. Stand-ins with the same name, MAC and MTU replace its devices. */
export function copyHost({ links, routes, sysctls, rules, iptables }: HostState): void {
  using route = RouteSocket.open()
  setLink(route, getLink(route, "lo"), { up: true })
  for (const [key, value] of Object.entries(sysctls)) tryWriteSysctl(key, value)
  for (const [at, link] of links.entries()) copyLink(route, link, `${STAND_IN}${at}`)
  // A gateway may become reachable through a later route.
  for (let round = 0; round < 2; round++) for (const each of routes) tryAddRoute(route, each)
  if (rules !== undefined) writeRules(rules)
  writeIptables(iptables)
}

function copyLink(
  route: RouteSocket,
  { name, kind, mac, mtu, isUp, addresses, vlanFiltering }: HostLink,
  peer: string,
): void {
  if (kind === "bridge")
    addLink(route, { kind, name, mac, mtu, up: isUp, data: vlanFiltering ? { vlanFiltering: 1 } : {} })
  else {
    addVeth(route, { name, mac, mtu }, { name: peer, mtu })
    for (const each of [name, peer]) setLink(route, getLink(route, each), { up: isUp })
  }
  for (const text of addresses) {
    const address = parseCidr(text)
    if (address) addAddress(route, getLink(route, name), { ...address, noDad: true })
  }
}

function tryAddRoute(route: RouteSocket, { dst, gateway, dev, metric }: HostRoute): void {
  const network = parseCidr(dst)
  const link = findLink(route, dev)
  if (!network || !link) return
  try {
    addRoute(route, {
      dst: network.ip,
      prefix: network.prefix,
      gateway: gateway === undefined ? undefined : parseIp(gateway),
      index: link.index,
      priority: metric,
    })
  } catch {
    // The route exists already, or a route to its gateway was skipped.
  }
}
