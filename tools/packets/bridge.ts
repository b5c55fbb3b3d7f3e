import { bridgePortData } from "../../pkg/netlink/mod.ts"
import { formatIp } from "../../pkg/types/mod.ts"
import type { NodeAttachment, NodeLink } from "../node/mod.ts"
import { arriveAtContainer } from "./answer.ts"
import { has } from "./facts.ts"
import { filtersFrames, settingOf } from "./frames.ts"
import type { HostKernel } from "./kernel.ts"
import type { Packet } from "./packet.ts"
import { describe, dropped, holderOf, pass, passDevice, passFrame, type Trip } from "./trip.ts"
import type { Hop } from "./way.ts"

/**
 * Follows a packet to another container of the bridge. Frames pass the packet filter only if br_netfilter sends them
 * there.
 */
export function throughBridge(trip: Trip, bridge: NodeLink, packet: Packet): Hop[] {
  const { way, node } = trip
  const text = formatIp(packet.destination)
  const other = holderOf(trip, packet.destination)
  if (!other)
    return way.end(
      `no container of bridge "${bridge.name}" is known to have ${text}: nothing answers ARP, unless it is beyond a port of the bridge`,
    )
  const port = node.links.find(({ nsid, name }) => nsid === undefined && name === other.link?.name)
  if (!port || port.master !== bridge.index)
    return way.end(`${describe(other)} has ${text}, and no port of bridge "${bridge.name}"`)
  if (!port.isUp) return way.end(`port "${port.name}" of ${describe(other)} is down`)
  const own = trip.attachment?.link?.name ?? ""
  const frame = { ...packet, input: own, bridge: bridge.name }
  if (!passFrame(trip, "prerouting", frame)) return dropped(trip)
  let passed: Packet = packet
  if (filtersFrames(trip, packet, bridge)) {
    way.pass("bridge", `net.bridge.${settingOf(packet)} is 1: frames pass the packet filter as well`)
    const arriving = pass(trip, "prerouting", { ...packet, input: bridge.name, isBridged: true }, true)
    if (!arriving) return dropped(trip)
    if (arriving.packet.isDestinationMapped) {
      way.notJudged("bridge", "a rule changes its destination on the bridge")
      return way.arrive("it is not followed further")
    }
    const passing = pass(trip, "forward", { ...arriving.packet, output: bridge.name })
    const leaving = passing && pass(trip, "postrouting", passing.packet, true)
    if (!leaving) return dropped(trip)
    passed = leaving.packet
  }
  if (!passFrame(trip, "forward", { ...frame, output: port.name })) return dropped(trip)
  if (!passFrame(trip, "postrouting", { ...frame, input: "", output: port.name })) return dropped(trip)
  if (!passDevice(trip, "egress", port.name, packet)) return dropped(trip)
  if (packet.sourcePort !== undefined) return way.arrive("it goes back")
  const what = `it reaches ${describe(other)} by port "${port.name}"`
  return arriveAtContainer(trip, { ...passed, output: bridge.name }, other, what)
}

/**
 * Returns the reason why an answer is lost after the host translated a container's packet and sent it to a port of the
 * same bridge. Returns `undefined` if it is not lost. Only the host can translate the addresses back.
 */
export function answerLost(trip: Trip, other: NodeAttachment, packet: Packet): string | undefined {
  const { attachment, kernel } = trip
  const bridge = attachment?.link?.master
  if (bridge === undefined || other.link?.master !== bridge) return undefined
  const isItself = other === attachment
  if (isItself && isHairpinOff(kernel, attachment))
    return `port "${attachment.link?.name}" has hairpin off: the bridge sends no frame back by the port that it came in by`
  if (!packet.isDestinationMapped || packet.isSourceMapped) return undefined
  if (isItself) return "no rule masquerades it: it comes back to the container with the container's own address"
  const isDirect = other.addresses.some((address) => address.includes("/") && has(address, packet.source))
  const name =
    attachment?.link && trip.node.links.find(({ nsid, index }) => nsid === undefined && index === bridge)?.name
  if (!isDirect || (name !== undefined && filtersFrames(trip, packet, { name }))) return undefined
  return `the answer goes by the bridge and not through the host, and has the wrong source: net.bridge.${settingOf(packet)} is not 1, and no rule masquerades the packet`
}

function isHairpinOff(kernel: HostKernel, { link }: NodeAttachment): boolean {
  const { slaveKind, slaveData } = (link && kernel.link(link.name)?.attributes.linkInfo) ?? {}
  return slaveKind === "bridge" && slaveData !== undefined && bridgePortData.decode(slaveData).hairpin === 0
}
