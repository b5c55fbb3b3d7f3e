import { askRoute, findLink, IFF_UP } from "../../pkg/netlink/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import { AF_INET, familyOf, formatIp, isLinkLocal } from "../../pkg/types/mod.ts"
import { describeLostBridge, lostBridge, type NodeAttachment } from "../node/mod.ts"
import { SENDING } from "./answer.ts"
import { throughBridge } from "./bridge.ts"
import { indexRules } from "./chain-walk.ts"
import { type Choices, explore } from "./choices.ts"
import { describeRefusal, isOfLink, nameOf, sourceOf, sysctl, tableText } from "./facts.ts"
import { tellNextHop } from "./forwarding.ts"
import { fromPort, passDiscovery } from "./frames.ts"
import { fromHost, throughHost } from "./host.ts"
import { HostKernel, RTN } from "./kernel.ts"
import { type Destination, firstPacket, protocolOf } from "./packet.ts"
import { type Hop, joinPaths, PacketPath, type Walk } from "./packet-path.ts"
import { type Container, dropped, type NodeState, passDevice, passInside, passQueue, type Trip } from "./trip.ts"

/** The maximum number of paths that are evaluated for random choices. */
const MAX_PATHS = 16

/**
 * Evaluates the first packet of a container's connection: reads links, routes and rules, and requests the kernel's
 * route for the packet. Evaluates one path for each outcome of a random choice. Changes nothing.
 */
export function walk(state: ContainerState, sandbox: Netns, destination: Destination): Walk {
  using inside = sandbox.openRoute()
  const ttl = sandbox.run(() => hopLimit(state.attachment, destination))
  return walkEach(state, (trip) => {
    const { attachment } = state
    return fromContainer({ ...trip, attachment, container: { sandbox, inside } }, destination, ttl)
  })
}

/** Evaluates the first packet of a connection from the host, and its answer. */
export function walkFromHost(state: NodeState, destination: Destination): Walk {
  return walkEach(state, (trip) => fromHost(trip, destination))
}

/** Returns the TTL or hop limit of packets from an attachment's container. */
function hopLimit({ ifName }: NodeAttachment, { ip }: Destination): number {
  const setting = familyOf(ip) === AF_INET ? "net/ipv4/ip_default_ttl" : `net/ipv6/conf/${ifName}/hop_limit`
  return Number(sysctl(setting) ?? MOST_HOPS)
}

const MOST_HOPS = 64

/** Evaluates each path of random choices, and joins the results. */
export function walkEach(state: NodeState, from: (trip: Trip) => Hop[]): Walk {
  using own = state.shared ? undefined : new HostKernel()
  const kernel = state.shared?.kernel ?? own ?? new HostKernel()
  const bases = state.filter?.bases ?? []
  const rulesOf = state.shared?.rulesOf ?? indexRules(state.filter ?? { rules: [] })
  const { found, isAll } = explore((choices: Choices): Walk => {
    const way = new PacketPath()
    const hops = from({ ...state, way, kernel, rules: { bases, rulesOf, kernel, choices } })
    return { hops, stop: hops.at(-1)?.passes === "no" ? way.stop : undefined, isUnrouted: way.isUnrouted }
  }, MAX_PATHS)
  const hops = joinPaths(found.map((each) => each.hops))
  const stop = found.every((each) => each.stop !== undefined) ? found[0]?.stop : undefined
  const isUnrouted = found.every((each) => each.isUnrouted)
  if (isAll) return { hops, stop, isUnrouted }
  const more = `more random paths exist: trace followed ${MAX_PATHS}`
  return { hops: [...hops, { where: "end", what: more, passes: "perhaps" }], stop: undefined, isUnrouted: false }
}

/** The state for an evaluation that begins at an attachment. */
export type ContainerState = NodeState & { readonly attachment: NodeAttachment }
type ContainerTrip = Trip & { readonly attachment: NodeAttachment; readonly container: Container }

function fromContainer(trip: ContainerTrip, destination: Destination, ttl: number): Hop[] {
  const { way, attachment, container } = trip
  const { inside } = container
  const link = findLink(inside, attachment.ifName)
  if (!link) return way.end(`the container has no interface "${attachment.ifName}"`)
  if ((link.flags & IFF_UP) === 0) return way.end(`"${attachment.ifName}" in the container is down`)
  const question = { dst: destination.ip, protocol: protocolOf(destination), destinationPort: portOf(destination) }
  const first = askRoute(inside, question)
  if (typeof first === "string") return way.end(`the container ${describeRefusal(first, destination.ip)}`)
  // The kernel repeats the lookup with the source that it has chosen, because policy rules may match the source.
  const route = first.preferredSource ? askRoute(inside, { ...question, src: first.preferredSource }) : first
  const source = first.preferredSource ?? sourceOf(attachment, destination)
  if (!source) return way.end(`the container has no address of the family of ${formatIp(destination.ip)}`)
  if (typeof route === "string")
    return way.end(`the container ${describeRefusal(route, destination.ip)} from ${formatIp(source)}`)
  if (isLinkLocal(source) && route.gateway !== undefined && trip.kernel.addressType(destination.ip) !== RTN.local)
    return way.end(`the container's only address of the family of ${formatIp(destination.ip)} is link-local`)
  const name = nameOf(inside, route.index) ?? attachment.ifName
  const gateway = route.gateway === undefined ? ", directly" : ` to gateway ${formatIp(route.gateway)}`
  way.pass("container", `from ${formatIp(source)} by "${name}"${gateway}${tableText(route.table)}`)
  if (route.type === RTN.local) return way.arrive("the packet stays in the container, which has the address")
  const output = name === attachment.ifName ? link : findLink(inside, name)
  if (!passQueue(way, name, output?.attributes.qdisc)) return dropped(trip)
  const used = name === attachment.ifName ? attachment : otherInterface(trip, name)
  if (!used) return way.arrive(`it leaves by "${name}", an interface without a known attachment: trace stops here`)
  const sent = { ...firstPacket(source, destination, ""), output: name }
  if (!passInside(trip, used, SENDING, sent)) return dropped(trip)
  if (ttl === 1 && route.gateway !== undefined && trip.kernel.addressType(destination.ip) !== RTN.local)
    return way.end("the container's packets have a TTL of 1: no host forwards them")
  tellNextHop(trip, container, used, route.gateway ?? destination.ip)
  return fromHostEnd({ ...trip, attachment: used }, source, destination, route.gateway)
}

/** Returns the attachment of another interface of the same container. */
function otherInterface({ attachments, attachment }: ContainerTrip, name: string): NodeAttachment | undefined {
  return attachments.find(({ netns, ifName }) => netns !== undefined && netns === attachment.netns && ifName === name)
}

function fromHostEnd(trip: ContainerTrip, source: Uint8Array, destination: Destination, gateway?: Uint8Array): Hop[] {
  const { way, attachment, node } = trip
  const end = attachment.link
  if (!end || end.nsid !== undefined)
    return way.arrive(
      `the interface has no end on the host: packets leave by its parent; whether ${formatIp(destination.ip)} answers is unknown`,
    )
  if (!end.isUp) return way.end(`"${end.name}", the host's end, is down`)
  const lost = lostBridge(attachment, node)
  if (lost && end.master === undefined) return way.end(`${describeLostBridge(lost)}: the container is disconnected`)
  const bridge = node.links.find(({ index, nsid }) => nsid === undefined && index === end.master)
  if (bridge && !bridge.isUp) return way.end(`bridge "${bridge.name}" is down`)
  if (bridge) way.pass("bridge", `port "${end.name}" of bridge "${bridge.name}"`)
  if (gateway !== undefined && !isLinkLocal(gateway) && trip.kernel.addressType(gateway) !== RTN.local) {
    way.notJudged("container", `whether gateway ${formatIp(gateway)} forwards it: it is not an address of this host`)
    return way.arrive(`the packet goes to gateway ${formatIp(gateway)}: trace stops here`)
  }
  const packet = firstPacket(source, destination, (bridge ?? end).name)
  if (gateway === undefined && bridge && !isOfLink(bridge, destination.ip)) {
    if (!passDevice(trip, "ingress", end.name, packet)) return dropped(trip)
    return throughBridge(trip, bridge, packet)
  }
  if (bridge && !fromPort(trip, packet, end.name, bridge.name)) return dropped(trip)
  if (!passDiscovery(trip, source, packet.input)) return dropped(trip)
  return throughHost(trip, packet)
}

function portOf({ port }: Destination): number | undefined {
  return port === 0 ? undefined : port
}
