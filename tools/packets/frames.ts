import { attrs, type ListedRoute, u8 } from "../../pkg/netlink/mod.ts"
import { AF_INET, familyOf } from "../../pkg/types/mod.ts"
import type { NodeAttachment, NodeLink } from "../node/mod.ts"
import { sysctl } from "./facts.ts"
import type { Packet } from "./packet.ts"
import { passDevice, passFrame, type Trip } from "./trip.ts"

/** Sends a frame from a container's port to the host. */
export function fromPort(trip: Trip, packet: Packet, port: string, bridge: string): boolean {
  const frame = { ...packet, input: port, bridge }
  if (!passDevice(trip, "ingress", port, packet)) return false
  return passFrame(trip, "prerouting", frame) && passFrame(trip, "input", frame)
}

/** Sends a frame from the host to a container's port. Returns true if the container has no bridge port. */
export function toPort(trip: Trip, packet: Packet, { link: end }: NodeAttachment): boolean {
  const bridge = trip.node.links.find(({ nsid, index }) => nsid === undefined && index === end?.master)
  if (end === undefined || bridge === undefined) return true
  const frame = { ...packet, input: "", output: end.name, bridge: bridge.name }
  if (!passFrame(trip, "output", frame) || !passFrame(trip, "postrouting", frame)) return false
  return passDevice(trip, "egress", end.name, packet)
}

/** Returns the setting that sends frames of a packet's family through the packet filter. */
export function settingOf({ destination }: Packet): string {
  return familyOf(destination) === AF_INET ? "bridge-nf-call-iptables" : "bridge-nf-call-ip6tables"
}

/**
 * Whether frames between ports of a bridge pass the rules for routed packets: by the setting for all bridges, or for
 * this one.
 */
export function filtersFrames({ kernel }: Trip, packet: Packet, { name }: Pick<NodeLink, "name">): boolean {
  if (sysctl(`net/bridge/${settingOf(packet)}`) === "1") return true
  const { data } = kernel.link(name)?.attributes.linkInfo ?? {}
  if (data === undefined) return false
  const { ip4, ip6 } = ownFiltering.decode(data)
  return (familyOf(packet.destination) === AF_INET ? ip4 : ip6) === 1
}

/** `IFLA_BR_NF_CALL_IPTABLES` and `IFLA_BR_NF_CALL_IP6TABLES`, <linux/if_link.h> */
const ownFiltering = attrs({ ip4: [36, u8], ip6: [37, u8] })

/** Whether a route leads to an attachment's end on the host, its bridge, or a device on top of the bridge. */
export function isTowards({ node }: Trip, { link }: NodeAttachment, { index }: ListedRoute): boolean {
  if (link === undefined || link.nsid !== undefined || link.kind !== "veth") return true
  const end = link.master ?? link.index
  const used = node.links.find((one) => one.nsid === undefined && one.index === index)
  return index === end || (used?.kind === "vlan" && used.peerNsid === undefined && used.peer === end)
}
