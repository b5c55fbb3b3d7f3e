import { filterProtocols, type IpsecDirection } from "../../pkg/netlink/mod.ts"
import { AF_INET, familyOf, formatIp } from "../../pkg/types/mod.ts"
import { describePolicy, type FilterView, findPolicy, type Node, type NodeAttachment, whyBlocked } from "../node/mod.ts"
import type { FilterQuestions } from "./chain-walk.ts"
import { formatPlace, type HookResult, passHook } from "./filter.ts"
import type { HostKernel } from "./kernel.ts"
import type { Packet } from "./packet.ts"
import type { Hop, Way } from "./way.ts"

/** The input of a walk. */
export interface Ground {
  readonly node: Node
  readonly attachments: readonly NodeAttachment[]
  /** Where the packet begins; undefined for one from outside. */
  readonly attachment?: NodeAttachment
  readonly filter: FilterView | undefined
}

/** One packet on its way. */
export interface Trip extends Ground {
  /** What follows at the end of the way: a container, or the host itself where it is undefined. */
  readonly atEnd?: (packet: Packet, other: NodeAttachment | undefined) => Hop[]
  readonly way: Way
  readonly kernel: HostKernel
  readonly rules: FilterQuestions
}

/** Sends the packet through the rules at a hook, and says what they do; undefined where they drop it. `isQuiet`: silence is not told. */
export function pass({ way, rules }: Trip, hook: string, packet: Packet, isQuiet = false): HookResult | undefined {
  const result = passHook(rules, hook, packet)
  for (const { what, passes } of result.notes) way.pass("filter", what, passes)
  if (result.notes.length === 0 && result.mappings.length === 0 && !isQuiet)
    way.pass("filter", `no rule at ${hook} stops it`)
  return result.verdict === "drop" ? undefined : result
}

/** The same at an interface: its ingress, or its egress; silence is not told. */
export function passDevice(trip: Trip, hook: "ingress" | "egress", device: string, packet: Packet): boolean {
  const xdp = hook === "ingress" && trip.node.links.find(({ nsid, name }) => nsid === undefined && name === device)?.xdp
  if (xdp)
    trip.way.pass("filter", `an XDP program (id ${xdp.id}) at "${device}" may drop it before all rules`, "perhaps")
  if (hook === "ingress" && !passTrafficControl(trip, hook, device, packet)) return false
  const result = passHook(trip.rules, hook, packet, device)
  for (const { what, passes } of result.notes) trip.way.pass("filter", `at ${hook} of "${device}": ${what}`, passes)
  return result.verdict !== "drop" && (hook === "ingress" || passTrafficControl(trip, hook, device, packet))
}

/** The same for the filters and the qdisc of traffic control there. */
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
    if (effect === "redirects" && to?.kind === "ifb" && to.isUp) continue // a limit: it comes back
    const where = `to ${to?.isUp ? `"${to.name}"` : "an interface that is down or gone"}`
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

/** The same for the qdisc at the root of an interface that it leaves by. */
export function passQueue(way: Way, device: string, qdisc: string | undefined): boolean {
  if (qdisc === "netem") way.pass("tc", `the qdisc netem of "${device}" may lose it`, "perhaps")
  if (qdisc !== "blackhole") return true
  way.pass("tc", `the qdisc blackhole of "${device}" drops it`, "no")
  return false
}

/** The reason why an IPsec policy of the host drops a packet; `undefined` when no policy does. */
export function whyBlockedByIpsec(
  { kernel: { ipsec } }: Trip,
  direction: IpsecDirection,
  { source, destination }: Packet,
): string | undefined {
  const found = findPolicy(ipsec, { direction, source, destination })
  const why = found && whyBlocked(found.policy, ipsec)
  return found && why && `${describePolicy(found)} of IPsec is about such packets, and ${why}: the kernel drops it`
}

export function dropped({ way }: Trip): Hop[] {
  return way.end(`dropped by ${way.hops.at(-1)?.where === "tc" ? "traffic control" : "the packet filter"}`)
}

/** Says where rules have sent a packet: "10.96.0.10:80 leads to 10.85.0.3:80 (pod shop/db), by rule …". */
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
  way.pass("nat", `${from} leads to ${to}${owner === undefined ? "" : ` (${owner})`}, by ${found.rule}`)
}

/** The attachment that has an address. */
export function holderOf({ attachments }: Pick<Ground, "attachments">, ip: Uint8Array): NodeAttachment | undefined {
  const text = formatIp(ip)
  return attachments.find(({ addresses }) => addresses.some((address) => address.split("/")[0] === text))
}

/** "pod shop/db", "container pods/c2/eth0" */
export function describe({ network, containerId, ifName, pod }: NodeAttachment): string {
  return pod === undefined ? `container ${network}/${containerId}/${ifName}` : `pod ${pod.namespace}/${pod.name}`
}
