import { filterProtocols, type IpsecDirection, type RouteSocket } from "../../pkg/netlink/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import type { BaseChain } from "../../pkg/nftables/mod.ts"
import { AF_INET, familyOf, formatIp, sameBytes } from "../../pkg/types/mod.ts"
import {
  describePolicy,
  type FilterView,
  findPolicy,
  type Inside,
  type Node,
  type NodeAttachment,
  type NotInside,
  whyBlocked,
} from "../node/mod.ts"
import { type FilterQuestions, indexRules, placeOf } from "./chain-walk.ts"
import type { Choices } from "./choices.ts"
import { formatPlace, type HookResult, passHook } from "./filter.ts"
import { type HostKernel, interfaceNumbers, type Kernel, RTN } from "./kernel.ts"
import type { Packet } from "./packet.ts"
import { type Hop, PacketPath } from "./packet-path.ts"

/** The state of a node for which packets are evaluated. */
export interface NodeState {
  readonly node: Node
  readonly attachments: readonly NodeAttachment[]
  /** The attachment that sends the packet. Undefined for a packet from outside. */
  readonly attachment?: NodeAttachment
  readonly filter: FilterView | undefined
  /** Returns the namespace of an attachment. Without this function, rules in containers are not evaluated. */
  readonly insideOf?: ((one: NodeAttachment) => Inside | NotInside | undefined) | undefined
  /**
   * Whether the path ends with a check for a listening process, and the answer has a path of its own. If not, the path
   * has a line for each place where the answer may be lost.
   */
  readonly isWhole?: boolean
  /** The data that several evaluations of one node share. */
  readonly shared?: { readonly kernel: HostKernel; readonly rulesOf: FilterQuestions["rulesOf"] } | undefined
}

/** A container's namespace, and a socket inside it. */
export interface Container {
  readonly sandbox: Netns
  readonly inside: RouteSocket
}

/** One packet that is evaluated, and its path so far. */
export interface Trip extends NodeState {
  readonly way: PacketPath
  /** The container that sends the first packet. Undefined if another host sends it. */
  readonly container?: Container
  readonly kernel: HostKernel
  readonly rules: FilterQuestions
}

/**
 * Evaluates the rules at a hook for a packet, and reports their effect. Returns undefined if they drop the packet. If
 * `isQuiet`, reports only hooks with an effect.
 */
export function pass({ way, rules }: Trip, hook: string, packet: Packet, isQuiet = false): HookResult | undefined {
  const result = passHook(rules, hook, packet)
  for (const { what, passes } of result.notes) way.pass("filter", what, passes)
  if (result.notes.length === 0 && result.mappings.length === 0 && !isQuiet)
    way.pass("filter", `no rule at ${hook} drops it`)
  if (result.by) way.stop = { ...result.by, packet }
  return result.verdict === "drop" ? undefined : result
}

/** Evaluates and reports the rules and tc filters at an interface. Returns false if they drop the packet. */
export function passDevice(trip: Trip, hook: "ingress" | "egress", device: string, packet: Packet): boolean {
  const xdp = hook === "ingress" && trip.node.links.find(({ nsid, name }) => nsid === undefined && name === device)?.xdp
  if (xdp)
    trip.way.pass("filter", `an XDP program (id ${xdp.id}) at "${device}" may drop it before all rules`, "perhaps")
  if (hook === "ingress" && !passTrafficControl(trip, hook, device, packet)) return false
  const result = passHook(trip.rules, hook, packet, device)
  for (const { what, passes } of result.notes) trip.way.pass("filter", `at ${hook} of "${device}": ${what}`, passes)
  if (result.by) trip.way.stop = { ...result.by, packet, device }
  return result.verdict !== "drop" && (hook === "ingress" || passTrafficControl(trip, hook, device, packet))
}

/**
 * Evaluates rules at a hook of family bridge for a frame that is not ARP. Skips this suite's tables: they match MACs.
 */
export function passFrame({ way, rules }: Trip, hook: string, packet: Packet): boolean {
  const isAsked = ({ table, type, hook: at }: BaseChain) =>
    table.family === "bridge" && type === "filter" && at === hook && !OURS.test(table.name)
  const bases = rules.bases.filter(isAsked)
  if (bases.length === 0) return true
  const result = passHook({ ...rules, bases }, hook, packet)
  for (const { what, passes } of result.notes) way.pass("bridge", what, passes)
  if (result.by) way.stop = { ...result.by, packet }
  if (result.verdict === "drop") return false
  const [closed] = bases.filter((base) => base.policy === "drop" || (rules.rulesOf(base) ?? []).length > 0)
  if (closed) way.notJudged("bridge", `whether ${placeOf(closed)} accepts ARP`)
  return true
}

/** Names of tables of this suite and the reference suite. */
const OURS = /^cni_/

/** Evaluates the rules of a container's namespace for a packet. Returns false if they drop it. */
export function passInside(trip: Trip, one: NodeAttachment, hooks: readonly string[], packet: Packet): boolean {
  const inside = trip.insideOf?.(one)
  if (inside === undefined || "reason" in inside) return true
  if (inside.notWhole.includes(FILTER_RULES)) trip.way.notJudged("container", "its packet filter is too long to read")
  if (inside.filter === undefined) return true
  const rules = insideRules(inside, inside.filter, trip.rules.choices)
  for (const hook of hooks) {
    const isAtDevice = hook === "ingress" || hook === "egress"
    const result = passHook(rules, hook, packet, isAtDevice ? one.ifName : undefined)
    for (const { what, passes } of result.notes) trip.way.pass("container", `in ${describe(one)}: ${what}`, passes)
    if (result.by) trip.way.stop = { ...result.by, packet, isInContainer: true }
    if (result.verdict === "drop") return false
    packet = result.packet
  }
  return true
}

/** The name of this list in `notWhole`. */
const FILTER_RULES = "rules of the packet filter"

/** Returns the rules in a container's base chains. Other chains, and the content of sets, are unknown. */
export function insideRules(inside: Inside, filter: FilterView, choices: Choices): FilterQuestions {
  const { bases } = filter
  const isRead = (chain: { name: string }) => bases.some(({ name }) => name === chain.name)
  const rulesOf = indexRules(filter)
  const links = inside.links ?? []
  const isOwn = (ip: Uint8Array) => inside.addresses?.some((one) => sameBytes(one.ip, ip)) === true
  const kernel: Kernel = {
    layoutOf: () => undefined,
    elementOf: () => undefined,
    mayHave: () => true,
    addressType: (ip) => (isOwn(ip) ? RTN.local : RTN.unicast),
    linkTowards: () => undefined,
    addressOn: () => undefined,
    interfaceOf: (name) => interfaceNumbers(links.find((link) => link.name === name)),
    isRecent: () => undefined,
    isWithoutRoutes: true,
  }
  return { bases, rulesOf: (chain) => (isRead(chain) ? rulesOf(chain) : undefined), kernel, choices }
}

/** Reports an interface's traffic control filters and, at egress, its qdisc. Returns false if they drop the packet. */
function passTrafficControl(
  { way, node, kernel }: Trip,
  hook: "ingress" | "egress",
  device: string,
  { source }: Packet,
): boolean {
  const link = node.links.find(({ nsid, name }) => nsid === undefined && name === device)
  if (!link) return true
  const protocols = [filterProtocols.all, familyOf(source) === AF_INET ? filterProtocols.ip : filterProtocols.ipv6]
  for (const { place, filter, effect, isForAll, by = "", target } of kernel.trafficFilters(link)) {
    if ((place === "ingress") !== (hook === "ingress") || !protocols.includes(filter.protocol as never)) continue
    const to = node.links.find(({ nsid, index }) => nsid === undefined && index === target)
    if (effect === "redirects" && to?.kind === "ifb" && to.isUp) continue // a rate limit, after which the packet continues
    const where = `to ${to?.isUp ? `"${to.name}"` : "a missing or inactive interface"}`
    const does = { drops: "drops it", redirects: `sends it ${where} instead`, decides: `(${by}) may drop it` }[effect]
    const isSure = isForAll && effect !== "decides"
    const may = isSure || effect === "decides" ? does : `${does}, if it matches`
    way.pass(
      "tc",
      `the tc filter at ${place} of "${device}", pref ${filter.priority}, ${may}`,
      isSure ? "no" : "perhaps",
    )
    if (isSure) return false
  }
  return hook === "ingress" || passQueue(way, device, link.qdisc)
}

/** Reports the root qdisc of the interface through which the packet leaves. Returns false if it drops the packet. */
export function passQueue(way: PacketPath, device: string, qdisc: string | undefined): boolean {
  if (qdisc === "netem") way.pass("tc", `the qdisc netem of "${device}" may lose it`, "perhaps")
  if (qdisc !== "blackhole") return true
  way.pass("tc", `the qdisc blackhole of "${device}" drops it`, "no")
  return false
}

/** Returns the reason why an IPsec policy of the host drops a packet, or `undefined` if none does. */
export function whyBlockedByIpsec(
  { kernel: { ipsec } }: Trip,
  direction: IpsecDirection,
  { source, destination }: Packet,
): string | undefined {
  const found = findPolicy(ipsec, { direction, source, destination })
  const why = found && whyBlocked(found.policy, ipsec)
  return found && why && `${describePolicy(found)} matches such packets, and ${why}: the kernel drops it`
}

export function dropped({ way }: Trip): Hop[] {
  const by: Partial<Record<Hop["where"], string>> = { tc: "traffic control", port: "the bridge" }
  return way.end(`dropped by ${by[way.hops.at(-1)?.where ?? "filter"] ?? "the packet filter"}`)
}

/** Ends the path of a packet that arrives. `follow` evaluates the answer. */
export function arrive(trip: Trip, what: string, follow: (trip: Trip) => unknown): Hop[] {
  const { way } = trip
  const answer = new PacketPath()
  answer.turn()
  follow({ ...trip, way: answer })
  if (answer.hops.some(({ passes }) => passes === "no")) {
    way.pass("host", what)
    return way.append(answer)
  }
  const doubts = answer.hops.filter(({ where, passes }) => passes === "perhaps" && where !== "end")
  for (const doubt of doubts) way.pass(doubt.where, `the answer: ${doubt.what}`, "perhaps")
  return way.arrive(what)
}

/** Reports where rules have sent a packet: "10.96.0.10:80 is forwarded to 10.85.0.3:80 (pod shop/db), by rule …". */
export function tellDestination(trip: Trip, { packet, mappings }: HookResult): void {
  const { way, kernel, node } = trip
  const found = mappings.find(({ mapping }) => mapping.kind === "destination")
  if (!found) return
  const { original, destination, destinationPort } = packet
  const to = formatPlace(destination, destinationPort)
  const isOwn = kernel.addressType(original.destination) === 2 && original.destinationPort > 0
  const from = isOwn
    ? `port ${original.destinationPort} of the host`
    : formatPlace(original.destination, original.destinationPort)
  const published = isOwn ? node.rules.ports.find((port) => port.to === to)?.owner : undefined
  const other = holderOf(trip, destination)
  const owner = published ?? (other && describe(other))
  way.pass("nat", `${from} is forwarded to ${to}${owner === undefined ? "" : ` (${owner})`}, by ${found.rule}`)
}

export function holderOf({ attachments }: Pick<NodeState, "attachments">, ip: Uint8Array): NodeAttachment | undefined {
  const text = formatIp(ip)
  return attachments.find(({ addresses }) => addresses.some((address) => address.split("/")[0] === text))
}

/** Describes an attachment: "pod shop/db", "container pods/c2/eth0". */
export function describe({ network, containerId, ifName, pod }: NodeAttachment): string {
  return pod === undefined ? `container ${network}/${containerId}/${ifName}` : `pod ${pod.namespace}/${pod.name}`
}
