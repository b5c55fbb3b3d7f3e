import { mac } from "../../pkg/netlink/mod.ts"
import {
  add,
  type Chain,
  create,
  dataTypes,
  type Element,
  encodeAhead,
  type FoundElements,
  fields,
  flush,
  ifnameValue,
  matchSet,
  type NamedSet,
  type Operation,
  type Rule,
  remove,
  type Table,
  verdict,
  withEncoded,
} from "../../pkg/nftables/mod.ts"

/** A bridge port with the only source MAC that its container may use. */
export interface GuardedPort {
  /** The name of the host's end of the pair. */
  port: string
  /** "0a:00:00:00:00:01" */
  mac: string
}

export const table: Table = {
  family: "bridge",
  name: "cni_spoofcheck",
  comment: "CNI: elements are commented network/containerID/ifname",
}

/** The priority "dstnat" of the family bridge, <linux/netfilter_bridge.h>. */
const NF_BR_PRI_NAT_DST_BRIDGED = -300

export const chain: Chain = {
  table,
  name: "prerouting",
  base: { type: "filter", hook: "prerouting", priority: NF_BR_PRI_NAT_DST_BRIDGED, policy: "accept" },
}

/** The checked ports. A frame from any other port of a bridge may have any source MAC. */
export const guarded: NamedSet = { table, name: "guarded", key: [dataTypes.ifname], comment: "ports of containers" }

/** The allowed source MAC of each checked port. */
export const allowed: NamedSet = {
  table,
  name: "allowed",
  key: [dataTypes.ifname, dataTypes.ether],
  comment: "the source MAC of each port",
}

/** The only rule. By looking up the sets, it serves all ports of all bridges in the namespace. */
export const rule: Rule = {
  chain,
  statements: [
    matchSet([fields.inputInterface], "==", guarded),
    matchSet([fields.inputInterface, fields.etherSource], "!=", allowed),
    verdict("drop"),
  ],
  comment: "frames from another MAC than the container's",
}

export function guardedElement({ port }: GuardedPort, comment: string): Element {
  return { key: [ifnameValue(port)], comment }
}

export function allowedElement(port: GuardedPort, comment: string): Element {
  return { key: [ifnameValue(port.port), mac.encode(port.mac)], comment }
}

/** The elements that were found in both sets; undefined if a set does not exist. */
export interface SpoofCheckElements {
  guarded: FoundElements | undefined
  allowed: FoundElements | undefined
}

/**
 * Plans the elements for a port if table, chain, sets and rule exist. The kernel refuses them if the port has elements.
 */
export function planNewGuard(port: GuardedPort, comment: string): Operation[] {
  return [
    create.elements(guarded, [guardedElement(port, comment)]),
    create.elements(allowed, [allowedElement(port, comment)]),
  ]
}

/**
 * Plans the missing objects for a port: table, chain, sets, rule and elements. Also removes other elements of the port,
 * because a port has one owner and one MAC.
 */
export function planGuard(
  found: SpoofCheckElements & { isComplete: boolean },
  port: GuardedPort,
  comment: string,
): Operation[] {
  return [
    ...(found.isComplete ? [] : skeleton()),
    ...replace(allowed, found.allowed, allowedElement(port, comment)),
    ...replace(guarded, found.guarded, guardedElement(port, comment)),
  ]
}

/**
 * Plans table, chain, sets and rule. Existing objects stay, except for unknown rules in the chain, which are removed.
 */
export function skeleton(): Operation[] {
  return withEncoded(skeletonOperations, encodedSkeleton)
}

const skeletonOperations = [
  add.table(table),
  add.chain(chain),
  flush.chain(chain),
  add.set(guarded),
  add.set(allowed),
  add.rule(rule),
]
const encodedSkeleton = encodeAhead(skeletonOperations)

function replace(set: NamedSet, found: FoundElements | undefined, element: Element): Operation[] {
  const held = (found?.elements ?? []).filter(({ key }) => String(key[0]) === String(element.key[0]))
  const others = held.filter((one) => !isSame(one, element))
  return [
    ...(others.length > 0 ? [remove.elements(set, others)] : []),
    ...(others.length === held.length ? [add.elements(set, [element])] : []),
  ]
}

/** Reports whether two elements of a set have the same key and owner. */
export function isSame(a: Element, b: Element): boolean {
  return String(a.key) === String(b.key) && a.comment === b.comment
}

/** Plans the removal of elements whose owner `isStale`, and of the table with its last element. */
export function planUnguard(found: SpoofCheckElements, isStale: (comment: string) => boolean): Operation[] {
  const groups = [
    { set: guarded, stale: staleIn(found.guarded, isStale) },
    { set: allowed, stale: staleIn(found.allowed, isStale) },
  ].filter(({ stale }) => stale.length > 0)
  if (groups.length === 0) return []
  const leaving = groups.reduce((sum, { stale }) => sum + stale.length, 0)
  if ((found.guarded?.count ?? 0) + (found.allowed?.count ?? 0) === leaving) return [remove.table(table)]
  return groups.map(({ set, stale }) => remove.elements(set, stale))
}

function staleIn(found: FoundElements | undefined, isStale: (comment: string) => boolean): Element[] {
  return (found?.elements ?? []).filter(({ comment }) => comment !== undefined && isStale(comment))
}
