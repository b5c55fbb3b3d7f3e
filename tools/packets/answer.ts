import { readTextFile } from "../../pkg/libc/mod.ts"
import { askRoute, findLink, IFF_UP, type ListedRoute } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { AF_INET, familyOf, formatIp } from "../../pkg/types/mod.ts"
import type { NodeAttachment } from "../node/mod.ts"
import { describeRefusal, nameOf, tableText, whyNoArp } from "./facts.ts"
import { markOf } from "./fib.ts"
import { formatPlace } from "./filter.ts"
import { hasNoCarrier, isWithoutRoute, tellNeighbour, tellNextHop, whyNotForwarded, whyRefused } from "./forwarding.ts"
import { acrossBridge, filtersFrames, fromPort, isTowards, toPort } from "./frames.ts"
import { RTN } from "./kernel.ts"
import { IPPROTO, type Packet, u32Bits } from "./packet.ts"
import type { Hop } from "./packet-path.ts"
import {
  arrive,
  type Container,
  describe,
  dropped,
  holderOf,
  pass,
  passDevice,
  passInside,
  passQueue,
  type Trip,
  whyBlockedByIpsec,
} from "./trip.ts"

/** Evaluates whether a container accepts a packet, and the path of its answer. */
export function arriveAtContainer(trip: Trip, arrived: Packet, other: NodeAttachment, what: string): Hop[] {
  const { way, node } = trip
  const { link: end, netns, ifName } = other
  const name = describe(other)
  const bridge = node.links.find(({ nsid, index }) => nsid === undefined && index === end?.master)
  if (end && !end.isUp) return way.end(`port "${end.name}" of ${name} is down`)
  if (bridge && !bridge.isUp) return way.end(`bridge "${bridge.name}" is down`)
  const place = formatPlace(arrived.destination, arrived.destinationPort)
  if (trip.isWhole) way.pass("container", `it reaches ${name}, ${place}`)
  using sandbox = netns === undefined ? undefined : Netns.find(netns)
  if (!sandbox && trip.isWhole) return way.end(`the namespace of ${name} no longer exists`)
  if (!sandbox) return way.arrive(what)
  using inside = sandbox.openRoute()
  const link = findLink(inside, ifName)
  if (!link) return way.end(`${name} has no interface "${ifName}"`)
  if ((link.flags & IFF_UP) === 0) return way.end(`"${ifName}" in ${name} is down`)
  const family = familyOf(arrived.destination)
  const silent = end?.kind === "veth" ? sandbox.run(() => whyNoArp(link, ifName, family)) : undefined
  if (silent !== undefined) way.notJudged("container", silent)
  const taken = askRoute(inside, { dst: arrived.destination })
  if (typeof taken === "string" || taken.type !== RTN.local)
    return way.end(`the container does not have the address ${formatIp(arrived.destination)}`)
  if (!passInside(trip, other, RECEIVING, { ...arrived, input: ifName, output: "" })) return dropped(trip)
  const answer = (back: Trip) => fromContainer(back, arrived, other, { sandbox, inside })
  if (!trip.isWhole) return arrive(trip, what, answer)
  if (!sandbox.run(() => isListening(arrived))) return way.end(nothingListens(arrived, "in the container"))
  way.turn()
  return answer(trip)
}

/** The hooks for packets that a container receives, and for packets that it sends. */
export const RECEIVING = ["ingress", "prerouting", "input"] as const
export const SENDING = ["output", "postrouting", "egress"] as const

function fromContainer(trip: Trip, arrived: Packet, other: NodeAttachment, container: Container): Hop[] {
  const { way, node, attachment } = trip
  const { inside } = container
  const { link: end, ifName } = other
  const bridge = node.links.find(({ nsid, index }) => nsid === undefined && index === end?.master)
  const route = askRoute(inside, { dst: arrived.source, src: arrived.destination, protocol: arrived.protocol })
  if (typeof route === "string") return way.end(`the container ${describeRefusal(route, arrived.source)}`)
  const output = nameOf(inside, route.index) ?? ifName
  const next = route.gateway ?? arrived.source
  const by = `by "${output}"${route.gateway === undefined ? ", directly" : ` to gateway ${formatIp(next)}`}`
  way.pass(
    "container",
    `from ${formatPlace(arrived.destination, arrived.destinationPort)} ${by}${tableText(route.table)}`,
  )
  if (!passQueue(way, output, findLink(inside, output)?.attributes.qdisc)) return dropped(trip)
  const sent = reversed(trip, arrived)
  if (!passInside(trip, other, SENDING, { ...sent, output: ifName })) return dropped(trip)
  if (output === ifName) tellNextHop(trip, container, other, next)
  const isOfHost = trip.kernel.addressType(next) === RTN.local
  const isOfLink = (bridge ?? end)?.addresses.some((address) => address.split("/")[0] === formatIp(next)) === true
  if (!isOfHost && isOfLink)
    way.notJudged("container", `whether the host answers for ${formatIp(next)}: the address is not local`)
  if (output !== ifName || !(isOfHost || isOfLink)) {
    const isBridged = bridge !== undefined && attachment?.link?.master === bridge.index && output === ifName
    if (arrived.isDestinationMapped && !(isBridged && filtersFrames(trip, sent, bridge)))
      return way.end(
        `the answer does not return through this host, and no other host can restore its source ${originalOf(arrived)}`,
      )
    if (!isBridged) way.notJudged("container", `the answer leaves by "${output}", but not from this host's address`)
    const client = attachment?.link
    if (!isBridged || !client || !end) return way.arrive("the answer goes back to the sender")
    if (!passDevice(trip, "ingress", end.name, sent)) return dropped(trip)
    const back = acrossBridge(trip, { ...sent, input: bridge.name }, { bridge, from: end.name, to: client.name })
    return back ? comeBack(trip, attachment, back, "the answer goes back to the sender") : dropped(trip)
  }
  const answer = { ...sent, input: (bridge ?? end)?.name ?? "" }
  if (bridge && end && !fromPort(trip, answer, end.name, bridge.name)) return dropped(trip)
  return answerThroughHost(trip, answer)
}

function originalOf({ original }: Packet): string {
  return formatPlace(original.destination, original.destinationPort)
}

/** Returns the answer to a packet, as its receiver sends it. */
function reversed({ way }: Trip, arrived: Packet): Packet {
  const isTracked = arrived.tracking !== "untracked"
  if (!isTracked) way.notJudged("filter", "the answer of a connection that is not tracked")
  const { isOfHost: _, ...same } = arrived
  return {
    ...same,
    source: arrived.destination,
    destination: arrived.source,
    destinationPort: 0,
    tracking: isTracked ? "established" : "untracked",
    sourcePort: arrived.destinationPort,
    mark: u32Bits(0),
    input: "",
    output: "",
  }
}

/** Evaluates the answer to a packet that left the host: it arrives on the interface through which the packet left. */
export function answerFromOutside(trip: Trip, left: Packet): Hop[] {
  return answerThroughHost(trip, { ...reversed(trip, left), input: left.output })
}

/**
 * Evaluates an answer's path through the host, which tracks the connection. The kernel restores the client's address as
 * destination before it chooses the route, and restores the source after the postrouting rules.
 */
function answerThroughHost(trip: Trip, answer: Packet): Hop[] {
  const { way, kernel } = trip
  if (!passDevice(trip, "ingress", answer.input, answer)) return dropped(trip)
  const result = pass(trip, "prerouting", answer, true)
  if (!result) return dropped(trip)
  const { packet } = result
  if (packet.tracking === "untracked" && (answer.isDestinationMapped || answer.isSourceMapped))
    return way.end("a rule disables tracking of its connection: the kernel does not restore its addresses")
  const question = { dst: packet.destination, src: packet.source, protocol: packet.protocol, mark: markOf(packet) }
  const route = kernel.routeOf({ ...question, input: kernel.link(packet.input)?.index })
  if (typeof route !== "string" && route.type === RTN.local) {
    if (!pass(trip, "input", packet, true)) return dropped(trip)
    return way.arrive("it comes back to the host")
  }
  const closed = whyNotForwarded(packet)
  if (closed !== undefined) return way.end(closed)
  if (typeof route === "string") {
    way.isUnrouted = isWithoutRoute(trip, packet)
    return way.end(whyRefused(trip, packet, route))
  }
  const link = route.index === undefined ? undefined : kernel.link(route.index)
  const output = link?.name ?? "?"
  const gateway = route.gateway === undefined ? "" : ` to gateway ${formatIp(route.gateway)}`
  way.pass("host", `forwarded from "${packet.input}" to "${output}"${gateway}${tableText(route.table)}`)
  if (link && (link.flags & IFF_UP) === 0) return way.end(`"${output}" is down`)
  const blocked = whyBlockedByIpsec(trip, "fwd", packet) ?? whyBlockedByIpsec(trip, "out", packet)
  if (blocked !== undefined) return way.end(blocked)
  const passing = pass(trip, "forward", { ...packet, output })
  const leaving = passing && pass(trip, "postrouting", passing.packet, true)
  if (!leaving) return dropped(trip)
  return giveBack(
    trip,
    leaving.packet,
    route,
    `the packet leaves the host by "${output}" for ${formatIp(packet.destination)}, with source ${originalOf(answer)}`,
  )
}

/** Delivers an answer through the interface toward the client. */
function giveBack(trip: Trip, packet: Packet, route: ListedRoute, what: string): Hop[] {
  const { way } = trip
  if (!passDevice(trip, "egress", packet.output, packet)) return dropped(trip)
  const client = holderOf(trip, packet.destination)
  if (client === undefined) {
    if (hasNoCarrier(trip.kernel.link(packet.output))) return way.end(`"${packet.output}" has no carrier`)
    tellNeighbour(trip, packet, route)
    return way.arrive(what)
  }
  if (!isTowards(trip, client, route)) {
    way.isUnrouted = tableText(route.table) !== ""
    return way.end(`the host sends it to ${describe(client)} by "${packet.output}", not to the container`)
  }
  tellNeighbour(trip, packet, route)
  return toPort(trip, packet, client) ? comeBack(trip, client, packet, what) : dropped(trip)
}

/** Delivers an answer to the container that opened the connection. */
function comeBack(trip: Trip, client: NodeAttachment, packet: Packet, what: string): Hop[] {
  const { way, container } = trip
  const taken = container && askRoute(container.inside, { dst: packet.destination })
  if (taken !== undefined && (typeof taken === "string" || taken.type !== RTN.local))
    return way.end(`the container does not accept packets for ${formatIp(packet.destination)}`)
  if (!passInside(trip, client, RECEIVING, { ...packet, input: client.ifName, output: "" })) return dropped(trip)
  return way.arrive(what)
}

/** Evaluates whether the host itself accepts a packet, and the path of its answer. */
export function arriveAtHost(trip: Trip, arrived: Packet): Hop[] {
  const { way } = trip
  const answer = (back: Trip) => fromHost(back, arrived)
  if (arrived.isDestinationMapped && !isListening(arrived)) return way.end(nothingListens(arrived, "on the host"))
  if (!trip.isWhole) {
    const unseen = arrived.destinationPort === 0 ? "" : "; whether a process listens there is not checked"
    return arrive(trip, `the packet reaches the host itself${unseen}`, answer)
  }
  way.pass("host", `the packet reaches the host itself, ${formatPlace(arrived.destination, arrived.destinationPort)}`)
  if (!isListening(arrived)) return way.end(nothingListens(arrived, "on the host"))
  way.turn()
  return answer(trip)
}

function fromHost(trip: Trip, arrived: Packet): Hop[] {
  const { way, kernel } = trip
  const answer: Packet = { ...reversed(trip, arrived), isOfHost: true }
  const route = kernel.routeOf({ dst: answer.destination, src: answer.source, protocol: answer.protocol })
  if (typeof route === "string") return way.end(`the host ${describeRefusal(route, answer.destination)}`)
  const output = (route.index === undefined ? undefined : kernel.link(route.index)?.name) ?? "?"
  const blocked = whyBlockedByIpsec(trip, "out", answer)
  if (blocked !== undefined) return way.end(blocked)
  const sent = pass(trip, "output", { ...answer, output }, !trip.isWhole)
  const leaving = sent && pass(trip, "postrouting", sent.packet, true)
  if (!leaving) return dropped(trip)
  return giveBack(
    trip,
    leaving.packet,
    route,
    `the packet leaves the host by "${output}" for ${formatIp(answer.destination)}`,
  )
}

function nothingListens({ protocol, destinationPort }: Packet, where: string): string {
  return `no process listens on ${protocol === IPPROTO.tcp ? "TCP" : "UDP"} port ${destinationPort} ${where}`
}

/** Socket states in proc_net_tcp(5): a listening TCP socket, and an unconnected UDP socket. */
const LISTENING = { tcp: "0A", udp: "07" } as const

/** Reports whether a socket of the thread's namespace accepts a packet. True for ICMP, which needs no socket. */
function isListening({ protocol, destination, destinationPort }: Packet): boolean {
  const name = protocol === IPPROTO.tcp ? "tcp" : protocol === IPPROTO.udp ? "udp" : undefined
  if (name === undefined) return true
  const port = destinationPort.toString(16).toUpperCase().padStart(4, "0")
  const places = new Set([asWords(destination), asWords(new Uint8Array(destination.length))])
  const isIpv4 = familyOf(destination) === AF_INET
  const own = rowsOf(isIpv4 ? name : `${name}6`).filter(([place = ""]) => places.has(place))
  // A socket at :: also accepts IPv4 unless it has IPV6_V6ONLY, which /proc does not show.
  const both = isIpv4 ? rowsOf(`${name}6`).filter(([place = ""]) => place === asWords(new Uint8Array(16))) : []
  return [...own, ...both].some(([, local, state]) => local === port && state === LISTENING[name])
}

function rowsOf(file: string): string[][] {
  try {
    const rows = readTextFile(`/proc/thread-self/net/${file}`).trim().split("\n").slice(1)
    return rows.map((row) => {
      const [, local = "", , state = ""] = row.trim().split(/\s+/)
      return [...local.split(":"), state]
    })
  } catch {
    return [] // the kernel has no IPv6
  }
}

/** Formats an address as proc_net_tcp(5) does: words of 32 bits in the host's byte order. */
function asWords(ip: Uint8Array): string {
  const words = Array.from({ length: ip.length / 4 }, (_, at) => ip.slice(4 * at, 4 * at + 4).reverse())
  return words.map((word) => word.toHex().toUpperCase()).join("")
}
