import { NeighbourState, type NextHop, RTPROT_KERNEL } from "../../pkg/netlink/mod.ts"
import { AF_INET, type Cidr, contains, familyOf, formatIp, networkOf, parseCidr } from "../../pkg/types/mod.ts"
import type { Node, NodeLink, NodeRoute } from "../node/mod.ts"
import { isGateway } from "./bridges.ts"
import { affectedBy, type Check, containerLinks, type DoctorInput, type Finding, nameOf, someOf } from "./finding.ts"
import type { Examined } from "./inside.ts"
import { ofOthers, sh } from "./remedy.ts"
import { UPLINKS, uplinksOf } from "./uplinks.ts"

/** Finds a host without an IPv4 address for masqueraded packets: its uplink lost the last one and thus all routes. */
export const checkUplinkAddress: Check = (input) => {
  const { examined, node, hostTables } = input
  const masqueraded = examined.filter(
    ({ plugins, interfaces }) =>
      plugins.some(({ raw }) => raw.ipMasq === true) &&
      interfaces.some(({ addresses }) => addresses.some(({ ip }) => familyOf(ip) === AF_INET)),
  )
  const isRouted =
    node.routes.some(({ dst, gateway }) => !dst.includes(":") && (dst === "0.0.0.0/0" || gateway !== undefined)) ||
    hostTables.routes.some(({ dst, prefix }) => prefix === 0 && familyOf(dst) === AF_INET)
  if (masqueraded.length === 0 || isRouted || uplinksOf(input, AF_INET).length > 0) return []
  const bare = bareLinks(input)
  if (bare.length === 0) return []
  const count = masqueraded.length === 1 ? "a container is" : `${masqueraded.length} containers are`
  const names = bare.map(({ name }) => `"${name}"`)
  return [
    {
      rule: "uplink-no-address",
      severity: "error",
      what: `the host has no IPv4 addresses outside its containers' networks, but ${count} masqueraded; ${someOf("interface", names)} ${names.length === 1 ? "has" : "have"} no address`,
      why: "packets of containers to networks beyond the host's own have no source address and no route: an interface loses its routes with its last address",
      remedy: `restore the uplink's address and default route: networkctl reconfigure ${bare[0]?.name}, nmcli device reapply, a DHCP client, or ip address add ADDRESS/PREFIX and ip route add default via GATEWAY`,
    },
  ]
}

/**
 * Returns the host's interfaces that could be uplinks: they are up but have no IPv4 address. Excludes containers'
 * interfaces, ports of other links, and bridges with only containers' ports.
 */
function bareLinks(input: DoctorInput): NodeLink[] {
  const own = new Set(containerLinks(input))
  return input.node.links.filter(
    ({ index, name, nsid, isUp, state, kind, master, peerNsid, addresses }) =>
      nsid === undefined &&
      (UPLINKS.has(kind) || (kind === "veth" && peerNsid !== undefined)) &&
      isUp &&
      name !== "lo" &&
      !own.has(name) &&
      master === undefined &&
      (state === "up" || (state === "unknown" && kind !== "bridge")) &&
      (kind !== "bridge" ||
        input.node.links.some((port) => port.nsid === undefined && port.master === index && !own.has(port.name))) &&
      !addresses.some((each) => !each.includes(":")),
  )
}

/** Finds gateways of the host's default routes that did not answer the host's last request for their MAC. */
export const checkHostGateways: Check = ({ node, hostTables, attachments }) => {
  if (attachments.length === 0) return []
  return ["0.0.0.0/0", "::/0"].flatMap((all) =>
    defaultRoutes(node, all).flatMap(({ gateway, dev }): Finding[] => {
      const link = node.links.find(({ name, nsid }) => nsid === undefined && name === dev)
      const entry = hostTables.neighbours.find(({ ip, index }) => index === link?.index && formatIp(ip) === gateway)
      if (link === undefined || gateway === undefined || !entry || !(entry.state & NeighbourState.Failed)) return []
      return [
        {
          rule: "host-gateway-silent",
          severity: "warning",
          affected: [{ name: `"${link.name}"` }],
          what: `${gateway}, the gateway of the host's ${all.includes(":") ? "IPv6 " : ""}default route by "${link.name}", did not answer the host's last request for its MAC`,
          why: "packets of containers to networks beyond the host's own are lost until the gateway answers",
          remedy: sh`ip neighbour delete ${gateway} dev ${link.name}`,
          note: "the kernel then requests the MAC again: if the finding returns, check the gateway, the cable, the VLAN, and the address in the route",
          consequenceOf: ["uplink-down", "netdev-drop"],
        },
      ]
    }),
  )
}

/** Returns the default routes of a family that the kernel uses: those with the lowest metric. */
function defaultRoutes({ routes, links }: Pick<Node, "routes" | "links">, all: string): NodeRoute[] {
  const ofAll = routes.filter(({ dst }) => dst === all)
  const alike = ofAll.flatMap(
    ({ nextHops, ...route }) => nextHops?.map((hop) => ({ ...route, ...named(hop, links) })) ?? route,
  )
  const least = Math.min(...alike.map(({ metric = 0 }) => metric))
  return alike.filter(({ metric = 0 }) => metric === least)
}

function named({ gateway, index }: NextHop, links: readonly NodeLink[]): Pick<NodeRoute, "gateway" | "dev"> {
  const dev = links.find((link) => link.nsid === undefined && link.index === index)?.name
  return { ...(gateway ? { gateway: formatIp(gateway) } : {}), ...(dev === undefined ? {} : { dev }) }
}

/** Finds host routes that drop packets to destinations of containers' routes, or to a large part of the Internet. */
export const checkOutsideRoutes: Check = ({ node, examined, hostTables }) => {
  const isDropped = (to: Cidr) => typeof hostTables.routesTo.get(formatIp(sampleOf(to))) === "string"
  return closedRoutes(node).flatMap(({ route, to }): Finding[] => {
    const isMuch = isWide(to) && isDropped(to)
    const wanted = (each: Examined) => destinationsOf(each).filter((dst) => dst.prefix >= to.prefix && isDropped(dst))
    const behind = isMuch ? [] : examined.filter((each) => wanted(each).some(({ ip }) => contains(to, ip)))
    const [one] = behind
    if (!isMuch && one === undefined) return []
    const leads = `the host's route to ${route.dst} drops packets`
    return [
      {
        rule: "outside-route-closed",
        severity: isMuch ? "warning" : "error",
        affected: behind.map((each) => affectedBy(each.one)),
        what:
          one === undefined
            ? `${leads}, but containers send packets to it through the host`
            : `${leads}, but ADD gave ${nameOf(one.one)} a route to it through the host`,
        ofMany: (count) => `${leads}, but ADD gave ${count} containers a route to it through the host`,
        why: "the host drops packets of containers to this destination",
        remedy: ofOthers(
          isMuch ? "it may be intended" : "exclude packets of containers from the route",
          sh`ip route show ${route.dst}`,
        ),
        consequenceOf: ["host-main-table"],
      },
    ]
  })
}

/** Returns the addresses for `checkOutsideRoutes`: one in each network to which a host route may drop packets. */
export function samplesOfClosed(node: Pick<Node, "routes">, examined: readonly Examined[]): Uint8Array[] {
  const closed = closedRoutes(node).map(({ to }) => to)
  const wanted = closed.length === 0 ? [] : examined.flatMap(destinationsOf)
  return [...closed.filter(isWide), ...wanted].map(sampleOf)
}

/** Returns host routes that drop packets and that no lower metric overrides, except default and kernel routes. */
function closedRoutes(node: Pick<Node, "routes">): { route: NodeRoute; to: Cidr }[] {
  const open = new Map<string, number>()
  for (const { isClosed, dst, metric = 0 } of node.routes)
    if (!isClosed) open.set(dst, Math.min(metric, open.get(dst) ?? metric))
  return node.routes.flatMap((route) => {
    const { dst, isClosed, protocol, metric = 0 } = route
    if (!isClosed || protocol === RTPROT_KERNEL || (open.get(dst) ?? metric) < metric) return []
    const to = parseCidr(dst)
    return to && to.prefix > 0 ? [{ route, to }] : []
  })
}

/** Returns the destinations of an attachment's routes through the host, except the default route. */
function destinationsOf({ one, plugins }: Examined): Cidr[] {
  if (!plugins.some(({ type, raw }) => type === "ptp" || isGateway({ type, raw, network: one.network }))) return []
  return (one.result?.routes ?? []).flatMap(({ dst }) => parseCidr(dst) ?? []).filter(({ prefix }) => prefix > 0)
}

/** Prefix lengths of the blocks that regional Internet registries receive, by address length in bytes. */
const WIDE = { 4: 8, 16: 12 } as const
/** IPv4 blocks outside of the public Internet (RFC 6890), and the IPv6 block from which registries assign addresses. */
const NOT_OUTSIDE = ["0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3"].flatMap((each) => parseCidr(each) ?? [])
const GIVEN_OUT = { ip: Uint8Array.of(0x20, ...new Array(15).fill(0)), prefix: 3 }

/** Reports whether a network is a large part of the Internet. */
function isWide(to: Cidr): boolean {
  if (to.ip.length === 4)
    return to.prefix <= WIDE[4] && !NOT_OUTSIDE.some((own) => to.prefix >= own.prefix && contains(own, to.ip))
  return to.prefix <= WIDE[16] && (contains(GIVEN_OUT, to.ip) || contains(to, GIVEN_OUT.ip))
}

function sampleOf(to: Cidr): Uint8Array {
  const ip = networkOf(to)
  const bit = Math.min(to.prefix, 8 * ip.length - 1)
  ip[bit >> 3] = (ip[bit >> 3] ?? 0) | (0x80 >> (bit & 7))
  ip[ip.length - 1] = (ip.at(-1) ?? 0) | 1
  return ip
}
