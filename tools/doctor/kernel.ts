import { RTPROT_RA } from "../../pkg/netlink/mod.ts"
import { AF_INET, familyOf, parseCidr } from "../../pkg/types/mod.ts"
import { countedOf, type NodeRoute } from "../node/mod.ts"
import { gatewaysOn, isGateway } from "./bridges.ts"
import { affectedBy, bridgeOf, bridgesOf, type Check, type DoctorInput, type Finding, routedLinks } from "./finding.ts"
import { giveAddress, inOneLine, setSysctl, sh } from "./remedy.ts"

/** The used share of a table above which the table counts as nearly full. */
export const NEARLY_FULL = 0.8

/** Finds disabled forwarding: ADD enables it, but other programs may disable it again. */
export const checkForwarding: Check = (input) => {
  const isolated = new Set(
    input.members.filter((member) => bridgeOf(member) && !isGateway(member)).map(({ network }) => network),
  )
  const used = input.attachments.filter(
    ({ link, isAlive, network }) => link && link.nsid === undefined && isAlive !== false && !isolated.has(network),
  )
  const found: Finding[] = []
  for (const [family, path] of [
    [4, "net/ipv4/ip_forward"],
    [6, "net/ipv6/conf/all/forwarding"],
  ] as const) {
    const concerned = used.filter(({ addresses }) => addresses.some((address) => familyOfText(address) === family))
    if (concerned.length === 0 || input.sysctl(path) !== "0") continue
    found.push({
      rule: "forwarding-off",
      severity: "error",
      cause: path,
      affected: concerned.map(affectedBy),
      what: `${path} is 0, and 1 container is attached`,
      ofMany: (count) => `${path} is 0, and ${count} containers are attached`,
      why: "the kernel does not forward packets between containers and other networks",
      remedy: setSysctl(path, 1),
      note: "find the program that disables it, such as a file in /etc/sysctl.d or a firewall's start script",
    })
  }
  const uplinks = used.length > 0 ? defaultUplinks(input) : []
  for (const link of new Set([...routedLinks(input), ...uplinks])) {
    if (input.sysctl(`net/ipv4/conf/${link}/forwarding`) !== "0") continue
    const isUplink = uplinks.includes(link)
    found.push({
      rule: "forwarding-off-link",
      severity: "error",
      cause: `net/ipv4/conf/*/forwarding${isUplink ? " of uplinks" : ""}`,
      affected: [{ name: `"${link}"` }],
      what: `net/ipv4/conf/${link}/forwarding is 0, but net/ipv4/ip_forward is 1`,
      ofMany: (count) => `net/ipv4/ip_forward is 1, but forwarding of ${count} interfaces is 0`,
      why: isUplink
        ? "the kernel forwards no packet from this uplink: neither answers to containers nor requests to published ports"
        : "the kernel forwards no packet from these interfaces",
      remedy: setSysctl(`net/ipv4/conf/${link}/forwarding`, 1),
    })
  }
  // A new value for all interfaces also changes the value of each interface.
  return input.sysctl("net/ipv4/ip_forward") === "0"
    ? found.filter(({ rule }) => rule !== "forwarding-off-link")
    : found
}

function defaultUplinks({ node }: DoctorInput): string[] {
  return node.routes.flatMap(({ dst, dev }) => (dst === "0.0.0.0/0" && dev !== undefined ? [dev] : []))
}

function familyOfText(address: string): 4 | 6 {
  return address.includes(":") ? 6 : 4
}

/**
 * Finds host interfaces that got addresses from router advertisements, but ignore advertisements since the host
 * forwards packets, so that the kernel has deleted their default route.
 */
export const checkAdvertisedRoutes: Check = ({ node, sysctl }) => {
  const defaults = node.routes.filter(({ dst, isClosed }) => dst === "::/0" && !isClosed)
  return node.links.flatMap(({ name, nsid, isUp, isAutoconfigured }): Finding[] => {
    const setting = (key: string) => sysctl(`net/ipv6/conf/${name}/${key}`)
    if (nsid !== undefined || !isUp || !isAutoconfigured) return []
    if (setting("accept_ra") !== "1" || setting("forwarding") !== "1") return []
    if (defaults.some(({ dev, protocol }) => dev === name && protocol === RTPROT_RA)) return []
    const lost = defaults.length === 0 ? "the host has no IPv6 default route, and" : "the host"
    return [
      {
        rule: "router-ignored",
        severity: defaults.length === 0 ? "error" : "warning",
        affected: [{ name: `"${name}"` }],
        what: `"${name}" has addresses from router advertisements, but ignores further ones: its accept_ra is 1, and its forwarding is on`,
        why: `${lost} loses these addresses when they expire`,
        remedy: `set accept_ra of "${name}" to 2, also in /etc/sysctl.d; the next advertisement restores the route`,
      },
    ]
  })
}

/** Finds strict reverse path filtering. The kernel uses the larger value of the interface's and of "all". */
export const checkReversePath: Check = (input) => {
  const all = Number(input.sysctl("net/ipv4/conf/all/rp_filter") ?? 0)
  return routedLinks(input).flatMap((link): Finding[] => {
    const value = Math.max(all, Number(input.sysctl(`net/ipv4/conf/${link}/rp_filter`) ?? 0))
    if (value !== 1) return []
    return [
      {
        rule: "rp-filter-strict",
        severity: "warning",
        cause: all === 1 ? "net/ipv4/conf/all/rp_filter" : "net/ipv4/conf/*/rp_filter",
        affected: [{ name: `"${link}"` }],
        what: `rp_filter of ${link} is strict (1)`,
        ofMany: (count) => `rp_filter of ${count} interfaces is strict (1)`,
        why: "the kernel silently drops packets of containers that have several interfaces, or whose answers take another route",
        remedy: setSysctl(`net/ipv4/conf/${all === 1 ? "all" : link}/rp_filter`, 2),
        note: "2 is loose",
      },
    ]
  })
}

/** Finds bridges whose frames between containers pass the packet filter's rules for forwarded packets. */
export const checkBridgeFiltering: Check = (input) => {
  const called = input.sysctl("net/bridge/bridge-nf-call-iptables")
  const pods = input.attachments.filter(({ pod }) => pod !== undefined)
  if (pods.length === 0 || bridgesOf(input).length === 0 || called === "1") return []
  const set = setSysctl("net/bridge/bridge-nf-call-iptables", 1)
  return [
    {
      rule: "br-netfilter-off",
      severity: "warning",
      what: called === undefined ? "the module br_netfilter is not loaded" : "net/bridge/bridge-nf-call-iptables is 0",
      why: "a pod cannot reach a Service through an endpoint on the same node",
      remedy: called === undefined ? sh`modprobe br_netfilter; ${set}` : set,
    },
  ]
}

/** Finds a full or nearly full connection tracking table. When it is full, the kernel drops new connections. */
export const checkConntrack: Check = (input) => {
  const [count, most] = ["count", "max"].map((name) => Number(input.sysctl(`net/netfilter/nf_conntrack_${name}`)))
  if (!count || !most || count < NEARLY_FULL * most) return []
  const isFull = count >= most
  return [
    {
      rule: "conntrack-full",
      severity: isFull ? "error" : "warning",
      what: `${count} of ${most} connections are tracked (${Math.round((100 * count) / most)} %)`,
      why: `${isFull ? "the kernel drops" : "when the table is full, the kernel drops"} new connections of the host and all containers`,
      remedy: setSysctl("net/netfilter/nf_conntrack_max", 2 * most),
      note: "conntrack -L lists the connections",
    },
  ]
}

/**
 * Finds nearly full neighbor tables, which all namespaces share. Only a table that rejected entries is an error: at the
 * limit, the kernel first drops entries that it does not need, such as multicast entries.
 */
export const checkNeighbourTables: Check = ({ hostTables, examined }) => {
  const containers = [...new Map(examined.map(({ inside }) => [inside.inode, inside])).values()]
  return hostTables.neighbourTables.flatMap(({ family, most, refused }): Finding[] => {
    const inContainers = containers.map(({ neighbours = [] }) => countedOf(neighbours, family))
    const entries = inContainers.reduce((sum, each) => sum + each, hostTables.countedNeighbours.get(family) ?? 0)
    const name = family === AF_INET ? "ipv4" : "ipv6"
    const path = `net/${name}/neigh/default/gc_thresh3`
    if (most === 0 || entries < NEARLY_FULL * most) return []
    const counted = `${entries} of ${most} entries, including those of containers`
    return [
      {
        rule: "neighbours-full",
        severity: refused > 0 ? "error" : "warning",
        what: `the kernel's table of ${family === AF_INET ? "IPv4" : "IPv6"} neighbors has ${counted}${refused > 0 ? `, and has rejected ${refused} since boot` : ""}`,
        why: 'when the table is full, the kernel cannot add neighbors: connections of the host and of containers fail with "No buffer space available", or hang',
        remedy: setSysctl(path, 2 * most), // a container cannot raise this number
        note: "ip -s ntable shows the tables; raise gc_thresh1 and gc_thresh2 too; a container that scans many addresses also fills the table",
      },
    ]
  })
}

/** Finds bridges and uplinks with disabled IPv6 whose containers have IPv6 addresses. */
export const checkIpv6: Check = (input) => [...withoutIpv6Uplink(input), ...withoutIpv6Bridge(input)]

/** Finds an uplink with disabled IPv6, without another IPv6 route out, if containers have an IPv6 default route. */
function withoutIpv6Uplink({ node, examined, sysctl }: DoctorInput): Finding[] {
  const isOut = ({ dst, gateway }: NodeRoute) => dst === "::/0" || (dst.includes(":") && gateway !== undefined)
  const used = examined.filter(
    ({ one, plugins }) =>
      plugins.some(({ raw }) => raw.ipMasq === true) && one.result?.routes.some(({ dst }) => dst === "::/0"),
  )
  const { dev } = node.routes.find(({ dst, dev }) => dst === "0.0.0.0/0" && dev !== undefined) ?? {}
  const path = `net/ipv6/conf/${dev}/disable_ipv6`
  if (used.length === 0 || dev === undefined || node.routes.some(isOut) || sysctl(path) !== "1") return []
  return [
    {
      rule: "ipv6-disabled",
      severity: "warning",
      cause: path,
      affected: used.map(({ one }) => affectedBy(one)),
      what: `${path} is 1: the uplink has no IPv6, but a container has an IPv6 default route`,
      ofMany: (count) => `${path} is 1: the uplink has no IPv6, but ${count} containers have an IPv6 default route`,
      why: "programs that try IPv6 first wait or fail: their packets do not leave the host",
      remedy: `remove IPv6 from the networks, or enable it on the uplink: sysctl -w ${path}=0, then add its address and default route again`,
    },
  ]
}

function withoutIpv6Bridge(input: DoctorInput): Finding[] {
  const bridges = new Set(bridgesOf(input))
  return input.attachments.flatMap((one): Finding[] => {
    const { addresses, link, network } = one
    const hasIpv6 = addresses.some((address) => {
      const cidr = parseCidr(address.includes("/") ? address : `${address}/128`)
      return cidr !== undefined && familyOf(cidr.ip) !== AF_INET
    })
    const master = input.node.links.find(({ index, nsid }) => nsid === undefined && index === link?.master)?.name
    if (!hasIpv6 || master === undefined || !bridges.has(master)) return []
    const path = `net/ipv6/conf/${master}/disable_ipv6`
    if (input.sysctl(path) !== "1") return []
    const gateways = gatewaysOn(one, input).filter(({ address }) => familyOfText(address) === 6)
    return [
      {
        rule: "ipv6-disabled",
        severity: "error",
        network,
        cause: path,
        affected: [affectedBy(one)],
        what: `${path} is 1, but containers on it have IPv6 addresses`,
        ofMany: (count) => `${path} is 1, but ${count} containers on it have IPv6 addresses`,
        why: "their gateway has no IPv6 address and does not answer",
        // The kernel deleted the addresses when IPv6 was disabled.
        remedy: inOneLine([setSysctl(path, 0), ...gateways.map(({ address, device }) => giveAddress(address, device))]),
      },
    ]
  })
}
