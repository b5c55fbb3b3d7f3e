import type { ListedRoute, RouteRefusal } from "../../pkg/netlink/mod.ts"
import { AF_INET, familyOf, formatIp } from "../../pkg/types/mod.ts"
import { describeLostBridge, lostBridge, type NodeAttachment } from "../node/mod.ts"
import { answerLost } from "./bridge.ts"
import { describeRefusal, has, isConntrackFull, sysctl, tableText } from "./facts.ts"
import { markOf } from "./fib.ts"
import type { HookResult } from "./filter.ts"
import { virtualServers } from "./ipvs.ts"
import { RTN } from "./kernel.ts"
import type { Packet } from "./packet.ts"
import { describe, dropped, holderOf, pass, passDevice, type Trip, tellDestination, whyBlockedByIpsec } from "./trip.ts"
import type { Hop } from "./way.ts"

/** A packet that has come to the host: rules at prerouting, the kernel's route, and what follows from it. */
export function throughHost(trip: Trip, arriving: Packet): Hop[] {
  const { way, kernel } = trip
  if (isConntrackFull()) return way.end("the table of connections is full: the kernel drops what begins a new one")
  if (!passDevice(trip, "ingress", arriving.input, arriving)) return dropped(trip)
  const result = pass(trip, "prerouting", arriving)
  if (!result) return dropped(trip)
  tellDestination(trip, result)
  const { packet } = result
  const route = kernel.routeOf({
    dst: packet.destination,
    src: packet.source,
    input: kernel.link(packet.input)?.index,
    mark: markOf(packet),
    protocol: packet.protocol,
    destinationPort: packet.destinationPort === 0 ? undefined : packet.destinationPort,
  })
  const isLocal = typeof route !== "string" && (route.type === RTN.local || route.type === RTN.broadcast)
  return isLocal ? toHost(trip, packet) : forward(trip, packet, route)
}

function toHost(trip: Trip, packet: Packet): Hop[] {
  const { way } = trip
  way.pass("host", `${formatIp(packet.destination)} is an address of the host`)
  if (!pass(trip, "input", packet)) return dropped(trip)
  const blocked = whyBlockedByIpsec(trip, "in", packet)
  if (blocked !== undefined) return way.end(blocked)
  const servers = virtualServers(packet)
  if (servers !== undefined) {
    way.pass("nat", `ip_vs hands it to ${servers.join(", ") || "no server"}: this is not followed`, "perhaps")
    return way.arrive("it goes on by ip_vs")
  }
  if (trip.atEnd) return trip.atEnd(packet, undefined)
  const unseen = packet.destinationPort === 0 ? "" : "; whether a process listens there is not looked at"
  return way.arrive(`it reaches the host itself${unseen}`)
}

/** The reason why the host does not forward; undefined where it does. */
export function whyNotForwarded({ destination, input }: Packet): string | undefined {
  const isIpv4 = familyOf(destination) === AF_INET
  const setting = isIpv4 ? "net/ipv4/ip_forward" : "net/ipv6/conf/all/forwarding"
  if (sysctl(setting) === "0") return `${setting} is 0: the host forwards nothing`
  if (isIpv4 && sysctl(`net/ipv4/conf/${input}/forwarding`) === "0")
    return `net/ipv4/conf/${input}/forwarding is 0: the host forwards nothing from "${input}"`
  return undefined
}

function forward(trip: Trip, packet: Packet, route: ListedRoute | RouteRefusal): Hop[] {
  const { way, kernel } = trip
  const closed = whyNotForwarded(packet)
  if (closed !== undefined) return way.end(closed)
  if (typeof route === "string") return way.end(whyRefused(trip, packet, route))
  const output = (route.index === undefined ? undefined : kernel.link(route.index)?.name) ?? "?"
  const gateway = route.gateway === undefined ? "" : ` to gateway ${formatIp(route.gateway)}`
  way.pass("host", `forwarded from "${packet.input}" to "${output}"${gateway}${tableText(route.table)}`)
  const blocked = whyBlockedByIpsec(trip, "fwd", packet) ?? whyBlockedByIpsec(trip, "out", packet)
  if (blocked !== undefined) return way.end(blocked)
  const passing = pass(trip, "forward", { ...packet, output })
  if (!passing) return dropped(trip)
  const leaving = pass(trip, "postrouting", passing.packet, true)
  if (!leaving) return dropped(trip)
  tellSource(trip, leaving)
  const unsent = leaving.packet.isSourceMapped ? whyBlockedByIpsec(trip, "out", leaving.packet) : undefined
  if (unsent !== undefined) return way.end(unsent)
  if (!passDevice(trip, "egress", output, leaving.packet)) return dropped(trip)
  return leave(trip, leaving.packet, route, gateway)
}

/** The reason of the kernel's refusal of a forwarded packet: several reasons have one errno, which differs by kernel. */
export function whyRefused({ kernel }: Trip, { source, destination, input }: Packet, refusal: RouteRefusal): string {
  const from = formatIp(source)
  if (refusal === "ENETUNREACH" || refusal === "EACCES" || refusal === "ESRCH")
    return `the host ${describeRefusal(refusal, destination)}`
  if (kernel.addressType(source) !== RTN.unicast)
    return `${from} is an address of the host itself, too: the kernel drops packets with it that come in by "${input}"`
  const filtered = whyReverseFiltered(kernel.routeOf({ dst: source }), source, input, kernel)
  if (filtered !== undefined) return filtered
  if (familyOf(destination) === AF_INET && destination[0] === 127)
    return `${formatIp(destination)} is a loopback address: net/ipv4/conf/${input}/route_localnet is 0`
  return `the host ${describeRefusal(refusal, destination)}`
}

/** net.ipv4.conf.*.rp_filter: of `all` and of the interface the greater one holds. */
export function whyReverseFiltered(
  back: ListedRoute | RouteRefusal,
  source: Uint8Array,
  input: string,
  kernel: Trip["kernel"],
): string | undefined {
  if (familyOf(source) !== AF_INET) return undefined
  const mode = Math.max(...["all", input].map((name) => Number(sysctl(`net/ipv4/conf/${name}/rp_filter`) ?? 0)))
  if (mode === 0) return undefined
  const says = `rp_filter of "${input}" is ${mode}: the host drops packets from ${formatIp(source)}`
  if (typeof back === "string") return `${says}, to which it has no route`
  const towards = back.index === undefined ? undefined : kernel.link(back.index)?.name
  return mode === 1 && towards !== input ? `${says}, to which it sends by "${towards}"` : undefined
}

function tellSource({ way }: Trip, { packet, mappings }: HookResult): void {
  const found = mappings.find(({ mapping }) => mapping.kind === "source")
  if (!found) return
  const { from } = found.mapping
  way.pass(
    "nat",
    from === "output"
      ? `masqueraded by ${found.rule}`
      : `its source becomes ${formatIp(packet.source)}, by ${found.rule}`,
  )
}

/** The hop that leaves the host: to a known container, or by another interface. */
function leave(trip: Trip, packet: Packet, route: ListedRoute, gateway: string): Hop[] {
  const { way, attachments, node } = trip
  const text = formatIp(packet.destination)
  const other = holderOf(trip, packet.destination)
  const lost = other && lostBridge(other, node)
  if (lost) return way.end(`${describeLostBridge(lost)}: ${describe(other)} is cut off`)
  if (other && !isTowards(trip, other, route))
    return way.end(`${describe(other)} has ${text}, and the host sends there by "${packet.output}", not to it`)
  if (other?.link?.master !== undefined && !passDevice(trip, "egress", other.link.name, packet)) return dropped(trip)
  const unanswered = other && answerLost(trip, other, packet)
  if (unanswered !== undefined) return way.end(unanswered)
  const port = packet.destinationPort > 0 ? ` port ${packet.destinationPort}` : ""
  if (other && trip.atEnd) return trip.atEnd(packet, other)
  if (other) return way.arrive(`it reaches ${describe(other)}, ${text}${port}, by "${packet.output}"`)
  const isPrivate =
    !packet.isSourceMapped && attachments.some(({ addresses }) => addresses.some((each) => has(each, packet.source)))
  const warning = isPrivate
    ? `; no rule masquerades it: ${formatIp(packet.source)} has to be routed back to this host`
    : ""
  const masqueraded = packet.isSourceMapped ? `, with source ${formatIp(packet.source)}` : ""
  return way.arrive(`it leaves the host by "${packet.output}"${gateway}${masqueraded}${warning}`)
}

/** Whether a route leads to an attachment's end on the host, its bridge, or what sits on that. */
function isTowards({ node }: Trip, { link }: NodeAttachment, { index }: ListedRoute): boolean {
  if (link === undefined || link.nsid !== undefined || link.kind !== "veth") return true
  const end = link.master ?? link.index
  const used = node.links.find((one) => one.nsid === undefined && one.index === index)
  return index === end || (used?.kind === "vlan" && used.peerNsid === undefined && used.peer === end)
}
