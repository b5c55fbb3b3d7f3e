import {
  attrs,
  type BriefLink,
  bridgePortData,
  IFA_F_MANAGETEMPADDR,
  IFF_NOARP,
  IFF_UP,
  linkData,
  listAddresses,
  listBriefLinks,
  listNsids,
  listRoutes,
  type NextHop,
  OperState,
  RouteSocket,
  RT_TABLE_MAIN,
  u8,
  u32,
} from "../../pkg/netlink/mod.ts"
import { type Cidr, formatCidr, formatIp } from "../../pkg/types/mod.ts"
import { foreign } from "./foreign.ts"

/** The traffic counters of a link, as its namespace sees them. */
export interface Counters {
  readonly received: { readonly packets: bigint; readonly bytes: bigint; readonly dropped: bigint }
  readonly sent: { readonly packets: bigint; readonly bytes: bigint; readonly dropped: bigint }
}

export interface NodeLink {
  readonly index: number
  readonly name: string
  /** The kind, such as "veth" or "bridge". "" for a device that was not created through netlink. */
  readonly kind: string
  /** The nsid of the container's namespace in which the link is. Undefined on the host. */
  readonly nsid?: number
  readonly mac: string
  readonly mtu: number
  readonly isUp: boolean
  /** Whether the link has ARP switched off. */
  readonly isWithoutArp?: boolean
  /** The operational state, RFC 2863: "up", "down", "lowerlayerdown" and others. */
  readonly state: string
  readonly alias?: string
  /** The index of the link's bridge or bond. */
  readonly master?: number
  /** The index of the veth's peer, or of the lower device of a VLAN or macvlan. The namespace is that of `peerNsid`. */
  readonly peer?: number
  /** The nsid of the peer's namespace. Undefined if the peer is in the link's own namespace. */
  readonly peerNsid?: number
  readonly vlanId?: number
  /** A bridge port's state (3 is forwarding), isolation, hairpin mode, and settings of `bridge link set` by name. */
  readonly port?:
    | {
        readonly state: number
        readonly isIsolated: boolean
        readonly isHairpin: boolean
        /** The value is undefined for a setting that the kernel does not have. */
        readonly settings: Readonly<Partial<Record<PortSetting, boolean>>>
      }
    | undefined
  /** The kind of the root qdisc, "noqueue" by default. */
  readonly qdisc?: string
  /** Whether a bridge uses the spanning tree protocol. */
  readonly hasStp?: boolean
  /** The attached XDP program. `mode` is the keyword of `ip link set`. */
  readonly xdp?: { readonly mode: string; readonly id: number } | undefined
  /** The addresses with prefix length. Read only for links on the host. */
  readonly addresses: readonly string[]
  /** Whether the link has an address from a router advertisement. */
  readonly isAutoconfigured?: boolean
  readonly counters?: Counters | undefined
}

/** A bridge port setting, by its name in `bridge link set`. */
export type PortSetting = "learning" | "flood" | "bcast_flood" | "mcast_flood" | "locked"

/** A route of the host's main table. */
export interface NodeRoute {
  /** The destination: "default", or a network with prefix length. */
  readonly dst: string
  readonly gateway?: string
  readonly dev?: string
  readonly nextHops?: readonly NextHop[]
  readonly metric?: number
  /** Whether the route drops packets: its type is blackhole, unreachable or prohibit. */
  readonly isClosed?: boolean
  /** RTPROT_*: 2 is the kernel's own route to the subnet of an address. */
  readonly protocol: number
}

/**
 * Route types that drop packets (RTN_*, <linux/rtnetlink.h>) and rule actions with the same numbers (FR_ACT_*,
 * <linux/fib_rules.h>), with their keywords in `ip`.
 */
export const CLOSED: ReadonlyMap<number, string> = new Map([
  [6, "blackhole"],
  [7, "unreachable"],
  [8, "prohibit"],
])

/** IFLA_XDP_ATTACHED and IFLA_XDP_PROG_ID of IFLA_XDP, <linux/if_link.h> */
const xdpAttributes = attrs({ attached: [2, u8], id: [4, u32] })
/** The keywords of `XDP_ATTACHED_*` in `ip link`. A program attached in several modes has the keyword "xdp". */
const xdpModes = ["", "xdpdrv", "xdpgeneric", "xdpoffload", "xdp"] as const

/** The size of the part of struct rtnl_link_stats64 that is read; <linux/if_link.h>. */
const STATS64_SIZE = 64

/** Reads the links of the host, and of namespaces with an nsid but no veth end there. Throws `NetlinkError`. */
export function readLinks(): NodeLink[] {
  using host = RouteSocket.open()
  const addresses = new Map<number, Cidr[]>()
  const autoconfigured = new Set<number>()
  for (const { index, ip, prefix, flags } of listAddresses(host)) {
    addresses.getOrInsert(index, []).push({ ip, prefix })
    if (flags & IFA_F_MANAGETEMPADDR) autoconfigured.add(index)
  }
  const own = listBriefLinks(host).map((link) => {
    const described = describeLink(link, undefined, addresses.get(link.index))
    return autoconfigured.has(link.index) ? Object.assign(described, { isAutoconfigured: true }) : described
  })
  const known = new Set(own.map(({ peerNsid }) => peerNsid)) // other namespaces need one request each
  const others = listNsids(host).filter((nsid) => !known.has(nsid))
  const inside = others.flatMap((nsid) =>
    listBriefLinks(host, nsid).flatMap((link) => (link.kind === "" ? [] : describeLink(link, nsid))),
  )
  return [...own, ...inside]
}

/** Describes a link. Computes texts, counters, XDP and port settings, most of the work, on first use. */
function describeLink(link: BriefLink, nsid: number | undefined, addresses: readonly Cidr[] = []): NodeLink {
  const { index, kind, mac, mtu, flags, attributes } = link
  const name = foreign(link.name)
  const alias = attributes.alias === undefined ? undefined : foreign(attributes.alias)
  const { master, link: peer, linkNetnsId: peerNsid, operState, qdisc } = attributes
  const vlanId = linkData(link, "vlan")?.id
  const hasStp = (linkData(link, "bridge")?.stpState ?? 0) !== 0
  let texts: readonly string[] | undefined
  return {
    index,
    name,
    kind,
    mac,
    mtu,
    isUp: (flags & IFF_UP) !== 0,
    ...((flags & IFF_NOARP) === 0 ? {} : { isWithoutArp: true }),
    state: stateNames.get(operState ?? 0) ?? "unknown",
    ...(nsid === undefined ? {} : { nsid }),
    ...(alias === undefined ? {} : { alias }),
    ...(master === undefined ? {} : { master }),
    ...(peer === undefined ? {} : { peer }),
    ...(peerNsid === undefined ? {} : { peerNsid }),
    ...(vlanId === undefined ? {} : { vlanId }),
    ...(qdisc === undefined ? {} : { qdisc }),
    ...(hasStp ? { hasStp } : {}),
    get addresses() {
      texts ??= addresses.map(formatCidr)
      return texts
    },
    get counters() {
      return countersOf(link)
    },
    get port() {
      return portOf(link)
    },
    get xdp() {
      return xdpOf(link)
    },
  }
}

function portOf({ attributes: { linkInfo } }: BriefLink): NodeLink["port"] {
  if (linkInfo?.slaveKind !== "bridge" || linkInfo.slaveData === undefined) return undefined
  const { state, isolated, hairpin, learning, flood, bcastFlood, mcastFlood, locked } = bridgePortData.decode(
    linkInfo.slaveData,
  )
  if (state === undefined) return undefined
  const settings: Partial<Record<PortSetting, boolean>> = {}
  if (learning !== undefined) settings.learning = learning === 1
  if (flood !== undefined) settings.flood = flood === 1
  if (bcastFlood !== undefined) settings.bcast_flood = bcastFlood === 1
  if (mcastFlood !== undefined) settings.mcast_flood = mcastFlood === 1
  if (locked !== undefined) settings.locked = locked === 1
  return { state, isIsolated: isolated === 1, isHairpin: hairpin === 1, settings }
}

function xdpOf({ attributes: { xdp } }: BriefLink): NodeLink["xdp"] {
  if (xdp === undefined) return undefined
  const { attached = 0, id = 0 } = xdpAttributes.decode(xdp)
  return attached === 0 ? undefined : { mode: xdpModes[attached] ?? "xdp", id }
}

const stateNames = new Map<number, string>(
  Object.entries(OperState).map(([name, number]) => [number, name.toLowerCase()]),
)

function countersOf({ attributes: { statistics: payload } }: BriefLink): Counters | undefined {
  if (payload === undefined || payload.length < STATS64_SIZE) return undefined
  const view = new DataView(payload.buffer, payload.byteOffset, payload.length)
  const at = (index: number) => view.getBigUint64(8 * index, true)
  return {
    received: { packets: at(0), bytes: at(2), dropped: at(6) },
    sent: { packets: at(1), bytes: at(3), dropped: at(7) },
  }
}

/** Reads the host's main table in both families. Interfaces get their names from `links`. Throws `NetlinkError`. */
export function readRoutes(links: readonly NodeLink[]): NodeRoute[] {
  using host = RouteSocket.open()
  const names = new Map(links.flatMap(({ nsid, index, name }) => (nsid === undefined ? [[Number(index), name]] : [])))
  const listed = listRoutes(host, undefined, { table: RT_TABLE_MAIN })
  return listed.map(({ dst, prefix, gateway, index, nextHops, priority, protocol, type }) => {
    const dev = index === undefined ? undefined : names.get(index)
    return {
      dst: formatCidr({ ip: dst, prefix }),
      ...(gateway === undefined ? {} : { gateway: formatIp(gateway) }),
      ...(dev === undefined ? {} : { dev }),
      ...(nextHops === undefined ? {} : { nextHops }),
      ...(priority === undefined ? {} : { metric: priority }),
      ...(CLOSED.has(type) ? { isClosed: true } : {}),
      protocol,
    }
  })
}
