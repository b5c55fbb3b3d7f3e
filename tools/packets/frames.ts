import { attrs, type ListedRoute, NeighbourState, u8 } from "../../pkg/netlink/mod.ts"
import { AF_INET, familyOf } from "../../pkg/types/mod.ts"
import type { NodeAttachment, NodeLink } from "../node/mod.ts"
import { sysctl } from "./facts.ts"
import { NUD_INCOMPLETE } from "./forwarding.ts"
import { firstPacket, isAnswer, type Packet } from "./packet.ts"
import { PacketPath } from "./packet-path.ts"
import { pass, passDevice, passFrame, type Trip } from "./trip.ts"

/** Evaluates a frame from a container's bridge port to the host. Returns false if it is dropped. */
export function fromPort(trip: Trip, packet: Packet, port: string, bridge: string): boolean {
  const frame = { ...packet, input: port, bridge }
  if (!passDevice(trip, "ingress", port, packet) || !passPort(trip, port, true)) return false
  return passFrame(trip, "prerouting", frame) && passFrame(trip, "input", frame)
}

/** Evaluates a frame from the host to a container's bridge port. False if it is dropped, true if no port exists. */
export function toPort(trip: Trip, packet: Packet, { link: end }: NodeAttachment): boolean {
  const bridge = trip.node.links.find(({ nsid, index }) => nsid === undefined && index === end?.master)
  if (end === undefined || bridge === undefined) return true
  const frame = { ...packet, input: "", output: end.name, bridge: bridge.name }
  if (!passFrame(trip, "output", frame) || !passPort(trip, end.name, false)) return false
  if (!passFrame(trip, "postrouting", frame)) return false
  return passDevice(trip, "egress", end.name, packet)
}

/** Reports whether a port's settings let a frame pass into the bridge and to another port, or out of the bridge. */
function passPort({ way, node }: Trip, name: string, isInto: boolean, to?: string): boolean {
  const portOf = (each: string) => node.links.find(({ nsid, name }) => nsid === undefined && name === each)?.port
  const port = portOf(name)
  const closed = { 0: "disabled", 4: "blocking" }[port?.state ?? 3]
  if (closed !== undefined) way.pass("port", `port "${name}" of the bridge is in state ${closed}`, "no")
  const isIsolated = to !== undefined && port?.isIsolated && portOf(to)?.isIsolated
  if (isIsolated) way.pass("port", `ports "${name}" and "${to}" of the bridge are both isolated`, "no")
  if (isInto && port?.settings.locked)
    way.notJudged("port", `whether the bridge has a static entry for the MAC at port "${name}", which is locked`)
  return closed === undefined && !isIsolated
}

/**
 * Evaluates neighbor discovery between the host and a container on a link: the container's solicitation and the host's
 * advertisement, which the kernel does not track. A drop has an effect only after the MACs have expired. Returns true
 * for IPv4, because the rules do not see ARP.
 */
export function passDiscovery(trip: Trip, peer: Uint8Array, link: string): boolean {
  const own = peer.length === 4 ? undefined : trip.kernel.addressOn(link, peer)
  if (own === undefined) return true
  const asked = own.map((byte, at) => (at < 13 ? (SOLICITED_NODE[at] ?? 0) : byte))
  const question = firstPacket(peer, { ip: asked, port: 0, protocol: "icmp" }, link)
  const answer = firstPacket(own, { ip: peer, port: 0, protocol: "icmp" }, "")
  const untracked = { tracking: "untracked" } as const
  const way = new PacketPath()
  const asking = { ...trip, way }
  const arrived = pass(asking, "prerouting", { ...question, ...untracked, icmpType: SOLICITATION }, true)
  const isAnswered =
    arrived !== undefined &&
    pass(asking, "input", arrived.packet, true) !== undefined &&
    pass(asking, "output", { ...answer, ...untracked, icmpType: ADVERTISEMENT, output: link, isOfHost: true }, true) !==
      undefined
  const { state = 0 } = trip.kernel.neighbour(trip.kernel.link(link)?.index, peer) ?? {}
  const isRemembered = (state & ~(NUD_INCOMPLETE | NeighbourState.Failed)) !== 0
  if (!isAnswered && !isRemembered) {
    trip.way.append(way)
    return false
  }
  for (const { what, passes } of way.hops)
    if (passes !== "yes")
      trip.way.notJudged("filter", `neighbor discovery, after the entry of the MAC has expired: ${what}`)
  return true
}

/** The prefix of solicited-node addresses, ff02::1:ff00:0/104, and message types: RFC 4861. */
const SOLICITED_NODE = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff] as const
const SOLICITATION = 135
const ADVERTISEMENT = 136

/** The ports that a frame between two containers of a bridge uses. */
export interface Crossing {
  readonly bridge: NodeLink
  readonly from: string
  readonly to: string
}

/** Evaluates a frame from one port of a bridge to another. Returns the changed packet, or undefined if dropped. */
export function acrossBridge(trip: Trip, packet: Packet, { bridge, from, to }: Crossing): Packet | undefined {
  const { way } = trip
  const frame = { ...packet, input: from, bridge: bridge.name }
  if (!passPort(trip, from, true, to) || !passPort(trip, to, false)) return undefined
  if (!passFrame(trip, "prerouting", frame)) return undefined
  let passed = packet
  if (filtersFrames(trip, packet, bridge)) {
    way.pass("bridge", `net.bridge.${settingOf(packet)} is 1: frames pass the packet filter too`)
    const arriving = pass(trip, "prerouting", { ...packet, input: bridge.name, isBridged: true }, true)
    if (!arriving || (arriving.packet.isDestinationMapped && !isAnswer(packet))) return arriving?.packet
    const passing = pass(trip, "forward", { ...arriving.packet, output: bridge.name })
    const leaving = passing && pass(trip, "postrouting", passing.packet, true)
    if (!leaving) return undefined
    passed = leaving.packet
  }
  const isPassed =
    passFrame(trip, "forward", { ...frame, output: to }) &&
    passFrame(trip, "postrouting", { ...frame, input: "", output: to }) &&
    passDevice(trip, "egress", to, packet)
  return isPassed ? passed : undefined
}

/** Returns the setting of br_netfilter that applies to a packet's family. */
export function settingOf({ destination }: Packet): string {
  return familyOf(destination) === AF_INET ? "bridge-nf-call-iptables" : "bridge-nf-call-ip6tables"
}

/** Reports whether frames between ports pass the rules for routed packets, by the global or this bridge's setting. */
export function filtersFrames({ kernel }: Trip, packet: Packet, { name }: Pick<NodeLink, "name">): boolean {
  if (sysctl(`net/bridge/${settingOf(packet)}`) === "1") return true
  const { data } = kernel.link(name)?.attributes.linkInfo ?? {}
  if (data === undefined) return false
  const { ip4, ip6 } = ownFiltering.decode(data)
  return (familyOf(packet.destination) === AF_INET ? ip4 : ip6) === 1
}

/** `IFLA_BR_NF_CALL_IPTABLES` and `IFLA_BR_NF_CALL_IP6TABLES`, <linux/if_link.h> */
const ownFiltering = attrs({ ip4: [36, u8], ip6: [37, u8] })

/** Reports whether a route's device is the host's end of an attachment, its bridge, or a VLAN on the bridge. */
export function isTowards({ node }: Trip, { link }: NodeAttachment, { index }: ListedRoute): boolean {
  if (link === undefined || link.nsid !== undefined || link.kind !== "veth") return true
  const end = link.master ?? link.index
  const used = node.links.find((one) => one.nsid === undefined && one.index === index)
  return index === end || (used?.kind === "vlan" && used.peerNsid === undefined && used.peer === end)
}
