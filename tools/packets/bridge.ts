import { formatIp } from "../../pkg/types/mod.ts"
import type { NodeAttachment, NodeLink } from "../node/mod.ts"
import { arriveAtContainer } from "./answer.ts"
import { has } from "./facts.ts"
import { acrossBridge, filtersFrames, settingOf } from "./frames.ts"
import type { Packet } from "./packet.ts"
import type { Hop } from "./packet-path.ts"
import { describe, dropped, holderOf, type Trip } from "./trip.ts"

/** Evaluates a packet to another container of the bridge. Rules apply to frames only with br_netfilter. */
export function throughBridge(trip: Trip, bridge: NodeLink, packet: Packet): Hop[] {
  const { way, node } = trip
  const text = formatIp(packet.destination)
  const other = holderOf(trip, packet.destination)
  if (!other)
    return way.end(
      `no known container of bridge "${bridge.name}" has ${text}: ARP gets no answer, unless the address is beyond a port of the bridge`,
    )
  const port = node.links.find(({ nsid, name }) => nsid === undefined && name === other.link?.name)
  if (!port || port.master !== bridge.index)
    return way.end(`${describe(other)} has ${text}, but no port of bridge "${bridge.name}"`)
  if (!port.isUp) return way.end(`port "${port.name}" of ${describe(other)} is down`)
  const own = trip.attachment?.link?.name ?? ""
  const passed = acrossBridge(trip, packet, { bridge, from: own, to: port.name })
  if (!passed) return dropped(trip)
  if (passed.isDestinationMapped) {
    way.notJudged("bridge", "a rule changes the packet's destination on the bridge")
    return way.arrive("trace stops here")
  }
  const what = `it reaches ${describe(other)} by port "${port.name}"`
  return arriveAtContainer(trip, { ...passed, output: bridge.name }, other, what)
}

/**
 * Returns the reason why the answer of a container on the same bridge is lost, or `undefined` if it is not lost. It is
 * lost if it bypasses the host, because only the host can restore the addresses that the host translated.
 */
export function answerLost(trip: Trip, other: NodeAttachment, packet: Packet): string | undefined {
  const { attachment } = trip
  const bridge = attachment?.link?.master
  if (bridge === undefined || other.link?.master !== bridge) return undefined
  const isItself = other === attachment
  if (isItself && attachment.link?.port?.isHairpin === false)
    return `port "${attachment.link?.name}" has hairpin off: the bridge sends no frame back through the port that received it`
  if (!packet.isDestinationMapped || packet.isSourceMapped) return undefined
  if (isItself)
    return "no rule masquerades the packet: it returns to the container with the container's own address as source"
  const isDirect = other.addresses.some((address) => address.includes("/") && has(address, packet.source))
  const name =
    attachment?.link && trip.node.links.find(({ nsid, index }) => nsid === undefined && index === bridge)?.name
  if (!isDirect || (name !== undefined && filtersFrames(trip, packet, { name }))) return undefined
  return `the answer passes the bridge but not the host, and has the wrong source: net.bridge.${settingOf(packet)} is not 1, and no rule masquerades the packet`
}
