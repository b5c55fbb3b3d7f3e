import {
  Budget,
  CLSACT_EGRESS,
  CLSACT_INGRESS,
  type Filter,
  findTarget,
  type Ifindex,
  isDrop,
  listFilters,
  listQdiscs,
  RouteSocket,
  TC_ACT_SHOT,
} from "../../pkg/netlink/mod.ts"
import type { NodeLink } from "./links.ts"

/** A traffic control filter at an interface that may drop or redirect packets. */
export interface TrafficFilter {
  readonly link: NodeLink
  /** The place as `tc filter` names it: "ingress", "egress", or "parent 1:" for a qdisc. */
  readonly place: string
  readonly filter: Filter
  /** "decides": a program or a limit decides, so drops cannot be predicted. */
  readonly effect: "drops" | "redirects" | "decides"
  /** Whether the filter matches every packet of its protocol. */
  readonly isForAll: boolean
  /** What decides: "police", or the name of a program. */
  readonly by?: string
  /** The index of the link to which the filter redirects packets. 0 for a deleted link. */
  readonly target?: number
}

/**
 * The maximum number of datagrams to read for all filters, so that a program that adds filters in a loop cannot delay
 * doctor. Containers cannot add filters to these links.
 */
const DATAGRAMS = 4096

/**
 * Reads the filters of the host's links that may drop or redirect packets, in the kernel's order, like `tc filter show
 * dev LINK ingress`. Skips programs that are attached by a BPF link ("tcx"). Throws `NetlinkError`.
 */
export function readTrafficFilters(links: readonly NodeLink[]): TrafficFilter[] {
  using route = RouteSocket.open(new Budget(0, DATAGRAMS))
  const byIndex = new Map(links.map((link) => [link.index, link]))
  return listQdiscs(route).flatMap(({ index, kind, handle }) => {
    const link = byIndex.get(index)
    if (!link) return []
    const device = { index: index as Ifindex, name: link.name }
    return placesOf(kind, handle).flatMap(([place, parent]) =>
      listFilters(route, device, parent)
        .sort((a, b) => a.priority - b.priority)
        .flatMap((filter) => describeFilter(filter).map((found) => ({ link, place, filter, ...found }))),
    )
  })
}

/** Returns the places at a qdisc that may have filters: their names in tc and their parent handles. */
function placesOf(kind: string, handle: number): [string, number][] {
  if (kind === "ingress") return [["ingress", CLSACT_INGRESS]]
  if (kind !== "clsact") return [[`parent ${(handle >>> 16).toString(16)}:`, handle]]
  return [
    ["ingress", CLSACT_INGRESS],
    ["egress", CLSACT_EGRESS],
  ]
}

/** `TCA_BPF_FLAG_ACT_DIRECT`, <linux/pkt_cls.h>: the program's return value is the verdict. */
const DIRECT = 1
/** `BPF_RET | BPF_K`, <linux/filter.h> */
const RETURN = 6

/** Returns the effect of a filter if it may drop or redirect packets, or none. */
export function describeFilter(filter: Filter): Pick<TrafficFilter, "effect" | "isForAll" | "by" | "target">[] {
  const { options } = filter
  if (!options) return []
  const isForAll = asksNothing(filter)
  if (filter.kind === "bpf" && (options.flags ?? 0) & DIRECT) {
    const returned = returnedAlways(options.code)
    if (returned === undefined) return [{ effect: "decides", isForAll: false, by: options.name ?? "a program" }]
    return returned === TC_ACT_SHOT ? [{ effect: "drops", isForAll }] : []
  }
  for (const action of options.actions ?? []) {
    const target = findTarget(action)
    if (isDrop(action)) return [{ effect: "drops", isForAll }]
    if (target !== undefined) return [{ effect: "redirects", isForAll, target }]
    if (action.kind === "police" || action.kind === "bpf") return [{ effect: "decides", isForAll, by: action.kind }]
  }
  return options.police ? [{ effect: "decides", isForAll, by: "police" }] : []
}

/** Attributes of flower that restrict no packets: the protocol, flags, and hardware counts; `TCA_FLOWER_*`. */
const PLAIN_OF_FLOWER: readonly number[] = [8, 22, 86]

function asksNothing({ kind, options, chain }: Filter): boolean {
  if (!options || chain !== undefined) return false
  if (kind === "matchall") return true
  if (kind === "u32") return options.selector?.every(({ mask }) => mask === 0) ?? false
  if (kind === "flower") return (options.unknown ?? []).every(({ type }) => PLAIN_OF_FLOWER.includes(type))
  return kind === "bpf" && (returnedAlways(options.code) ?? 0) !== 0
}

/** Returns the value that a classic BPF program always returns, if it is one instruction: struct sock_filter. */
function returnedAlways(code: Uint8Array | undefined): number | undefined {
  if (code?.length !== 8 || code[0] !== RETURN) return undefined
  return new DataView(code.buffer, code.byteOffset).getUint32(4, true)
}
