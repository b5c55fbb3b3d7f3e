import { RTN_UNICAST } from "../../pkg/netlink/mod.ts"
import {
  AF_INET,
  AF_INET6,
  contains,
  type Family,
  familyOf,
  formatIp,
  parseCidr,
  parseIp,
} from "../../pkg/types/mod.ts"
import type { NodeLink, NodeRoute } from "../node/mod.ts"
import { isGateway } from "./bridges.ts"
import { affectedBy, type Check, containerLinks, type DoctorInput, type Finding, nameOf } from "./finding.ts"
import { type Examined, isUp, localMappings } from "./inside.ts"
import { ofOthers, sh } from "./remedy.ts"

const families: readonly (readonly [Family, string, string])[] = [
  [AF_INET, "0.0.0.0/0", "default route"],
  [AF_INET6, "::/0", "IPv6 default route"],
]

/** Finds masquerade without effect: the host has an uplink, but no usable route to other networks. */
export const checkDefaultRoute: Check = (input) => {
  const { examined, node, hostTables } = input
  const masqueraded = examined.filter(({ plugins }) => plugins.some(({ raw }) => raw.ipMasq === true))
  return families.flatMap(([family, all, name]): Finding[] => {
    const used = masqueraded.filter((each) => addressesOf(each).some((ip) => familyOf(ip) === family))
    const uplink = uplinksOf(input, family)[0]
    if (used.length === 0 || uplink === undefined) return []
    const count = used.length === 1 ? "a container is" : `${used.length} containers are`
    const closed = closedDefault(input, all)
    const isElsewhere = hostTables.routes.some(({ dst, prefix }) => prefix === 0 && familyOf(dst) === family)
    if (closed !== undefined && !isElsewhere)
      return [
        {
          rule: "host-no-default-route",
          severity: "error",
          what: `the host's ${name} drops packets: it is a blackhole or an unreachable route, but ${count} masqueraded`,
          why: "packets of containers to networks beyond the host's own are lost",
          remedy: ofOthers(
            "give the host a default route with a lower metric, or delete this one",
            family === AF_INET6 ? sh`ip -6 route show default` : sh`ip route show default`,
          ),
        },
      ]
    const isRouted = node.routes.some(
      ({ dst, gateway }) =>
        familyOf(parseCidr(dst)?.ip ?? new Uint8Array(4)) === family && (dst === all || gateway !== undefined),
    )
    if (isRouted || isElsewhere) return []
    return [
      {
        rule: "host-no-default-route",
        severity: "warning",
        what: `the host has no ${name}, but ${count} masqueraded`,
        why: "packets of containers to networks beyond the host's own are lost",
        remedy: `ip route add default via GATEWAY dev ${uplink.name}, with the gateway of its network; find the program that removed the route`,
      },
    ]
  })
}

/** Finds default routes over interfaces without carrier, except bridges, which may have no ports. */
export const checkUplinkState: Check = (input) => {
  const { node, attachments } = input
  if (attachments.length === 0) return []
  const isCut = ({ kind, state }: NodeLink) => kind !== "bridge" && (state === "down" || state === "lowerlayerdown")
  const found = families.flatMap(([, all, name]): Finding[] => {
    const defaults = node.routes.filter(({ dst }) => dst === all)
    const hops = new Set<number | undefined>(
      defaults.flatMap(({ nextHops = [] }) => nextHops.map(({ index }) => index)),
    )
    const devices = new Set(defaults.map(({ dev }) => dev))
    const links = node.links.filter(
      (link) => link.nsid === undefined && (devices.has(link.name) || hops.has(link.index)),
    )
    const first = links.find(isCut)
    if (first === undefined || (!links.every(isCut) && !hops.has(first.index))) return []
    return [
      {
        rule: "uplink-down",
        severity: "error",
        affected: [{ name: `"${first.name}"` }],
        what: `"${first.name}", ${links.length === 1 ? "the" : "an"} interface of the host's ${name}, has no carrier`,
        why: "packets of containers to networks beyond the host's own are lost, and no packet arrives through this interface",
        remedy: `check its cable and the other end: ip -d link show ${first.name}`,
      },
    ]
  })
  return [...found, ...closedUplinks(input)].slice(0, 1)
}

/** Finds a host whose only uplink was set down: its address remains, but the kernel deleted its routes. */
function closedUplinks(input: DoctorInput): Finding[] {
  const { node, examined } = input
  const own = new Set(containerLinks(input))
  const isRouted = node.routes.some(({ dst, gateway }) => dst === "0.0.0.0/0" || gateway !== undefined)
  const isUsed = examined.some(({ plugins }) => plugins.some(({ raw }) => raw.ipMasq === true))
  if (isRouted || !isUsed || uplinksOf(input, AF_INET).length > 0) return []
  const isUplink = ({ kind, peerNsid }: NodeLink) => UPLINKS.has(kind) || (kind === "veth" && peerNsid !== undefined)
  const down = node.links.find(
    (link) =>
      link.nsid === undefined &&
      !link.isUp &&
      !own.has(link.name) &&
      isUplink(link) &&
      link.addresses.some((each) => !each.includes(":") && !each.startsWith("127.")),
  )
  if (down === undefined) return []
  return [
    {
      rule: "uplink-down",
      severity: "error",
      affected: [{ name: `"${down.name}"` }],
      what: `"${down.name}" is down, but the host has no other interface to other networks`,
      why: "packets of containers to networks beyond the host's own are lost: an interface that is down has no routes",
      remedy: `ip link set ${down.name} up, and give it its default route again: networkctl reconfigure ${down.name}, or ip route add default via GATEWAY`,
    },
  ]
}

/** Kinds of links that can be uplinks; "" is a physical device. If the host is a container, its uplink is a veth. */
export const UPLINKS = new Set(["", "bond", "team", "vlan", "bridge"])

/** Returns the default route of a family that the kernel uses, if it drops packets. */
function closedDefault({ node }: DoctorInput, all: string): NodeRoute | undefined {
  const defaults = node.routes.filter(({ dst }) => dst === all)
  const best = Math.min(...defaults.map(({ metric = 0 }) => metric))
  const counting = defaults.filter(({ metric = 0 }) => metric === best)
  return counting.find(({ isClosed }) => !isClosed) === undefined ? counting[0] : undefined
}

/** Returns the host's interfaces that are up, have an address of the family, and are not for containers. */
export function uplinksOf(input: DoctorInput, family: Family): NodeLink[] {
  const own = new Set(containerLinks(input))
  return input.node.links.filter(({ name, nsid, isUp, kind, state, addresses }) => {
    const hasCarrier = state === "up" || (state === "unknown" && kind !== "bridge")
    const isConnected = nsid === undefined && name !== "lo" && isUp && hasCarrier
    if (!isConnected || own.has(name)) return false
    const ips = addresses.flatMap((each) => parseCidr(each) ?? []).filter(({ ip }) => familyOf(ip) === family)
    return ips.some(({ ip }) => !(ip[0] === 0xfe && family !== AF_INET))
  })
}

/** Finds an uplink with strict rp_filter and without the host's answers: it drops packets for published ports. */
export const checkUplinkFilters: Check = (input) => {
  const { node, sysctl } = input
  const defaults = node.routes.filter(({ dst, dev }) => dst === "0.0.0.0/0" && dev !== undefined)
  const best = Math.min(...defaults.map(({ metric = 0 }) => metric))
  const used = new Set(defaults.filter(({ metric = 0 }) => metric === best).map(({ dev }) => dev))
  const all = Number(sysctl("net/ipv4/conf/all/rp_filter") ?? 0)
  if (node.rules.ports.length === 0) return []
  return [...new Set(defaults.map(({ dev = "" }) => dev))].flatMap((dev): Finding[] => {
    const value = Math.max(all, Number(sysctl(`net/ipv4/conf/${dev}/rp_filter`) ?? 0))
    if (value !== 1 || used.has(dev)) return []
    return [
      {
        rule: "rp-filter-uplink",
        severity: "warning",
        affected: [{ name: `"${dev}"` }],
        what: `rp_filter of the uplink "${dev}" is strict (1), but the host answers through "${[...used].join('", "')}"`,
        why: `the kernel silently drops packets that arrive through "${dev}" for published ports`,
        remedy: sh`sysctl -w ${`net/ipv4/conf/${dev}/rp_filter=2`}`,
      },
    ]
  })
}

/** Finds published ports that 127.0.0.1 does not reach, because `route_localnet` is off toward the container. */
export const checkLocalnet: Check = (input) => {
  const { examined, hostTables, node, sysctl } = input
  const own = new Set(containerLinks(input))
  const settings = new Map<string, string | undefined>()
  const settingOf = (link: string) =>
    settings.getOrInsertComputed(link, () => sysctl(`net/ipv4/conf/${link}/route_localnet`))
  if (sysctl("net/ipv4/conf/all/route_localnet") !== "0") return []
  return examined.flatMap((each): Finding[] => {
    const { one, interfaces } = each
    const local = localMappings(each)
    const addresses = local.length === 0 ? [] : interfaces.flatMap(({ addresses }) => addresses)
    const ip = addresses.find((address) => familyOf(address.ip) === AF_INET)?.ip
    if (ip === undefined) return []
    const route = hostTables.routesTo.get(formatIp(ip))
    const index = typeof route === "object" && route.type === RTN_UNICAST ? route.index : undefined
    const link = node.links.find((each) => each.nsid === undefined && each.index === index)
    if (link === undefined || !own.has(link.name) || settingOf(link.name) !== "0") return []
    const ports = local.map(({ hostPort, protocol }) => `${hostPort}/${protocol}`).join(", ")
    return [
      {
        rule: "route-localnet-off",
        severity: "warning",
        network: one.network,
        cause: `net/ipv4/conf/${link.name}/route_localnet`,
        affected: [affectedBy(one)],
        what: `net/ipv4/conf/${link.name}/route_localnet is 0, but ports ${ports} of 127.0.0.1 are published for ${nameOf(one)}`,
        ofMany: (count) =>
          `net/ipv4/conf/${link.name}/route_localnet is 0, but ports of 127.0.0.1 are published for ${count} containers`,
        why: "the host itself cannot reach these ports at 127.0.0.1; others can reach them at its addresses",
        remedy: sh`sysctl -w ${`net/ipv4/conf/${link.name}/route_localnet=1`}`,
        consequenceOf: ["missing-ports", "table-dormant", "host-route-missing"],
      },
    ]
  })
}

/** Finds DNS servers in ADD's result to which the container or the host has no route. Sends no packet. */
export const checkDns: Check = (input) =>
  input.examined.flatMap((examined) => {
    const { one } = examined
    return dnsServersOf(examined).flatMap((server): Finding[] => {
      const blame = whyUnreachable(server, examined, input)
      if (blame === undefined) return []
      const text = formatIp(server)
      return [
        {
          rule: "dns-unreachable",
          severity: "warning",
          network: one.network,
          cause: `DNS server ${text} ${blame}`,
          affected: [affectedBy(one)],
          what: `${blame} has no route to ${text}, a DNS server of ${nameOf(one)}`,
          ofMany: (count) => `${blame} has no route to ${text}, a DNS server of ${count} containers`,
          why: "names resolve only after seconds, or not at all",
          remedy: `set "dns.nameservers" of network "${one.network}" to a reachable server, or add a route to ${text}`,
          consequenceOf: [
            "container-link-missing",
            "container-link-down",
            "container-address-missing",
            "container-route-missing",
            "container-network-route",
            "container-no-carrier",
            "container-rule",
            "container-main-table",
            "host-no-default-route",
            "uplink-no-address",
            "host-main-table",
          ],
        },
      ]
    })
  })

/** Returns the DNS servers in ADD's result, except loopback and link-local addresses. */
export function dnsServersOf({ one }: Pick<Examined, "one">): Uint8Array[] {
  const servers = (one.result?.dns.nameservers ?? []).flatMap((server) => parseIp(server) ?? [])
  return servers.filter((ip) =>
    ip.length === 4
      ? ip[0] !== 127 && !(ip[0] === 169 && ip[1] === 254)
      : ip[0] !== 0xfe && ip.some((byte, at) => at < 15 && byte !== 0),
  )
}

function whyUnreachable(server: Uint8Array, examined: Examined, { hostTables }: DoctorInput): string | undefined {
  const { inside, plugins, one } = examined
  const { links, routes } = inside
  if (links === undefined || routes === undefined) return undefined
  const up = new Set(links.filter(isUp).map(({ index }) => index))
  const isReached = routes.some(
    ({ dst, prefix, index, nextHops, type }) =>
      type === RTN_UNICAST &&
      (nextHops !== undefined || (index !== undefined && up.has(index))) &&
      dst.length === server.length &&
      contains({ ip: dst, prefix }, server),
  )
  if (!isReached) return "the container"
  const isRouted = plugins.some(({ type, raw }) => type === "ptp" || isGateway({ type, raw, network: one.network }))
  return isRouted && typeof hostTables.routesTo.get(formatIp(server)) === "string" ? "the host" : undefined
}

function addressesOf({ interfaces }: Examined): Uint8Array[] {
  return interfaces.flatMap(({ addresses }) => addresses.map(({ ip }) => ip))
}
