import {
  IFF_UP,
  type Ifindex,
  type Link,
  type ListedRoute,
  type NextHop,
  type RouteRefusal,
  RT_TABLE_MAIN,
} from "../../pkg/netlink/mod.ts"
import { AF_INET, familyOf, formatIp, parseCidr } from "../../pkg/types/mod.ts"
import { describeLostBridge, lostBridge, type NodeRoute } from "../node/mod.ts"
import { answerFromOutside, arriveAtContainer, arriveAtHost } from "./answer.ts"
import { answerLost } from "./bridge.ts"
import { describeRefusal, has, isConntrackFull, tableText } from "./facts.ts"
import { markOf } from "./fib.ts"
import { formatPlace, type HookResult } from "./filter.ts"
import { hasNoCarrier, isWithoutRoute, tellNeighbour, whyNotForwarded, whyRefused } from "./forwarding.ts"
import { isTowards, passDiscovery, toPort } from "./frames.ts"
import { virtualServers } from "./ipvs.ts"
import { RTN, readIfThere } from "./kernel.ts"
import { type Destination, firstPacket, type Packet, protocolOf } from "./packet.ts"
import type { Hop } from "./packet-path.ts"
import {
  arrive,
  describe,
  dropped,
  holderOf,
  pass,
  passDevice,
  type Trip,
  tellDestination,
  whyBlockedByIpsec,
} from "./trip.ts"

/** Evaluates a packet that arrived at the host: prerouting rules, the kernel's route, and the next hops. */
export function throughHost(trip: Trip, arriving: Packet): Hop[] {
  const { way, kernel } = trip
  if (isConntrackFull())
    return way.end("the connection table is full: the kernel drops the first packet of a new connection")
  tellLegacyTables(trip, arriving)
  if (!passDevice(trip, "ingress", arriving.input, arriving)) return dropped(trip)
  const result = pass(trip, "prerouting", arriving)
  if (!result) return dropped(trip)
  tellDestination(trip, result)
  const { packet } = result
  const route = routeOf(trip, packet, kernel.link(packet.input)?.index)
  const isLocal = typeof route !== "string" && (route.type === RTN.local || route.type === RTN.broadcast)
  return isLocal ? toHost(trip, packet) : forward(trip, packet, route)
}

/** Returns the kernel's route for a packet. If several next hops have interfaces that are up, chooses one at random. */
function routeOf(trip: Trip, packet: Packet, input?: Ifindex): ListedRoute | RouteRefusal {
  const { kernel, node, rules } = trip
  const { destination: dst, source: src, protocol, destinationPort } = packet
  const port = destinationPort === 0 ? undefined : destinationPort
  const route = kernel.routeOf({ dst, src, input, mark: markOf(packet), protocol, destinationPort: port })
  if (typeof route === "string" || route.gateway === undefined || route.table !== RT_TABLE_MAIN) return route
  const hops = nextHopsTo(node, dst).filter((hop) => hop.index !== undefined && isLinkUp(kernel.link(hop.index)))
  if (hops.length < 2) return route
  const hop = hops[rules.choices.take(hops.length)]
  return { ...route, index: hop?.index, gateway: hop?.gateway }
}

function isLinkUp(link: Link | undefined): boolean {
  return link !== undefined && (link.flags & IFF_UP) !== 0
}

/** Returns the next hops of the multipath route in the main table with the longest prefix for an address. */
function nextHopsTo({ routes = [] }: Trip["node"], ip: Uint8Array): readonly NextHop[] {
  const several = routes.filter(({ nextHops, dst }) => nextHops !== undefined && has(dst, ip))
  const prefixOf = ({ dst }: NodeRoute) => parseCidr(dst)?.prefix ?? 0
  return several.sort((a, b) => prefixOf(b) - prefixOf(a))[0]?.nextHops ?? []
}

/** Reports tables of iptables-legacy in the packet's family, because their rules are not read. */
function tellLegacyTables({ way }: Trip, { source }: Packet): void {
  const isIpv4 = familyOf(source) === AF_INET
  const names = readIfThere(`/proc/thread-self/net/${isIpv4 ? "ip" : "ip6"}_tables_names`)?.trim()
  if (names) way.notJudged("filter", `the rules of iptables-legacy, in table ${names.split("\n").join(", ")}`)
}

/** Evaluates the first packet of a connection from the host. */
export function fromHost(trip: Trip, destination: Destination): Hop[] {
  const { way, kernel } = trip
  const question = { dst: destination.ip, protocol: protocolOf(destination) }
  const first = kernel.routeOf({ ...question, destinationPort: destination.port === 0 ? undefined : destination.port })
  way.isUnrouted = typeof first === "string"
  if (typeof first === "string") return way.end(`the host ${describeRefusal(first, destination.ip)}`)
  if (isConntrackFull())
    return way.end("the connection table is full: the kernel drops the first packet of a new connection")
  const output = (first.index === undefined ? undefined : kernel.link(first.index)?.name) ?? "?"
  const source = first.preferredSource ?? kernel.addressOn(output, destination.ip)
  if (!source) return way.end(`the host has no address of the family of ${formatIp(destination.ip)}`)
  const sent: Packet = { ...firstPacket(source, destination, ""), output, isOfHost: true }
  way.pass("host", `from ${formatIp(source)} to ${formatPlace(destination.ip, destination.port)}`)
  tellLegacyTables(trip, sent)
  const result = pass(trip, "output", sent)
  if (!result) return dropped(trip)
  tellDestination(trip, result)
  // The kernel repeats the route lookup if a rule changed the mark or the destination.
  const route = routeOf(trip, result.packet)
  if (typeof route === "string") return way.end(`the host ${describeRefusal(route, result.packet.destination)}`)
  if (route.type === RTN.local) return way.arrive("the packet stays on the host, which has the address")
  return send(trip, result.packet, route, "sent")
}

function toHost(trip: Trip, packet: Packet): Hop[] {
  const { way } = trip
  way.pass("host", `${formatIp(packet.destination)} is an address of the host`)
  if (!pass(trip, "input", packet)) return dropped(trip)
  const blocked = whyBlockedByIpsec(trip, "in", packet)
  if (blocked !== undefined) return way.end(blocked)
  const servers = virtualServers(packet)
  if (servers !== undefined) {
    way.pass(
      "nat",
      `ip_vs sends the packet to ${servers.join(", ") || "no server"}: trace does not follow it`,
      "perhaps",
    )
    return way.arrive("ip_vs forwards the packet")
  }
  return arriveAtHost(trip, packet)
}

function forward(trip: Trip, packet: Packet, route: ListedRoute | RouteRefusal): Hop[] {
  const { way } = trip
  const closed = whyNotForwarded(packet)
  if (closed !== undefined) return way.end(closed)
  if (typeof route === "string") {
    way.isUnrouted = isWithoutRoute(trip, packet)
    return way.end(whyRefused(trip, packet, route))
  }
  return send(trip, packet, route, `forwarded from "${packet.input}"`)
}

/** Evaluates a routed packet: forward rules unless the host sent it, postrouting rules, and the interface. */
function send(trip: Trip, packet: Packet, route: ListedRoute, how: string): Hop[] {
  const { way, kernel } = trip
  const output = (route.index === undefined ? undefined : kernel.link(route.index)?.name) ?? "?"
  const gateway = route.gateway === undefined ? "" : ` to gateway ${formatIp(route.gateway)}`
  way.pass("host", `${how} to "${output}"${gateway}${tableText(route.table)}`)
  const link = route.index === undefined ? undefined : kernel.link(route.index)
  const isDead = link !== undefined && (!isLinkUp(link) || hasNoCarrier(link))
  way.isUnrouted = isDead && tableText(route.table) !== ""
  if (link && !isLinkUp(link)) return way.end(`"${output}" is down`)
  const blocked =
    (packet.isOfHost ? undefined : whyBlockedByIpsec(trip, "fwd", packet)) ?? whyBlockedByIpsec(trip, "out", packet)
  if (blocked !== undefined) return way.end(blocked)
  const passing = packet.isOfHost ? { packet: { ...packet, output } } : pass(trip, "forward", { ...packet, output })
  if (!passing) return dropped(trip)
  const leaving = pass(trip, "postrouting", passing.packet, true)
  if (!leaving) return dropped(trip)
  tellSource(trip, leaving)
  const unsent = leaving.packet.isSourceMapped ? whyBlockedByIpsec(trip, "out", leaving.packet) : undefined
  if (unsent !== undefined) return way.end(unsent)
  if (!passDevice(trip, "egress", output, leaving.packet)) return dropped(trip)
  return leave(trip, leaving.packet, route, gateway)
}

function tellSource({ way, kernel }: Trip, { packet, mappings }: HookResult): void {
  const found = mappings.find(({ mapping }) => mapping.kind === "source")
  if (!found) return
  const { from } = found.mapping
  if (kernel.addressType(packet.source) !== RTN.local)
    way.notJudged("nat", `whether answers to ${formatIp(packet.source)} return: it is not an address of this host`)
  way.pass(
    "nat",
    from === "output"
      ? `masqueraded by ${found.rule}`
      : `the packet's source becomes ${formatIp(packet.source)}, by ${found.rule}`,
  )
}

/** Evaluates the packet after it left the host: to a known container, or through another interface. */
function leave(trip: Trip, packet: Packet, route: ListedRoute, gateway: string): Hop[] {
  const { way, attachments, node } = trip
  const text = formatIp(packet.destination)
  const other = holderOf(trip, packet.destination)
  const lost = other && lostBridge(other, node)
  if (lost && lost.end.master === undefined)
    return way.end(`${describeLostBridge(lost)}: ${describe(other)} is disconnected`)
  if (other && !isTowards(trip, other, route)) {
    way.isUnrouted = tableText(route.table) !== ""
    return way.end(`${describe(other)} has ${text}, but the host's route is by "${packet.output}"`)
  }
  if (other && !(toPort(trip, packet, other) && passDiscovery(trip, packet.destination, packet.output)))
    return dropped(trip)
  if (other) tellNeighbour(trip, packet, route)
  const unanswered = other && answerLost(trip, other, packet)
  if (unanswered !== undefined) return way.end(unanswered)
  const port = packet.destinationPort > 0 ? ` port ${packet.destinationPort}` : ""
  if (other)
    return arriveAtContainer(
      trip,
      packet,
      other,
      `it reaches ${describe(other)}, ${text}${port}, by "${packet.output}"`,
    )
  if (hasNoCarrier(trip.kernel.link(packet.output))) return way.end(`"${packet.output}" has no carrier`)
  tellNeighbour(trip, packet, route)
  const isPrivate =
    !packet.isSourceMapped && attachments.some(({ addresses }) => addresses.some((each) => has(each, packet.source)))
  const warning = isPrivate
    ? `; no rule masquerades it: ${formatIp(packet.source)} needs a route back to this host`
    : ""
  const masqueraded = packet.isSourceMapped ? `, with source ${formatIp(packet.source)}` : ""
  const what = `the packet leaves the host by "${packet.output}"${gateway}${masqueraded}${warning}`
  return arrive(trip, what, (back) => answerFromOutside(back, packet))
}
