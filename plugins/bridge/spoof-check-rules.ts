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

/** The port of a bridge on which a container's frames come in, and the only MAC that they may come from. */
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

export const chain: Chain = {
  table,
  name: "prerouting",
  base: { type: "filter", hook: "prerouting", priority: -300, policy: "accept" },
}

/** The ports that are looked at: other ports of a bridge may send what they like. */
export const guarded: NamedSet = { table, name: "guarded", key: [dataTypes.ifname], comment: "ports of containers" }

/** What may come in by them. */
export const allowed: NamedSet = {
  table,
  name: "allowed",
  key: [dataTypes.ifname, dataTypes.ether],
  comment: "the source MAC of each",
}

/** The one rule for all ports of a namespace's bridges, which looks into the sets. */
export const rule: Rule = {
  chain,
  statements: [
    matchSet([fields.inputInterface], "==", guarded),
    matchSet([fields.inputInterface, fields.etherSource], "!=", allowed),
    verdict("drop"),
  ],
  comment: "frames from another MAC than the container's",
}

/** The element of `guarded` for a port. */
export function guardedElement({ port }: GuardedPort, comment: string): Element {
  return { key: [ifnameValue(port)], comment }
}

/** The element of `allowed` for a port. */
export function allowedElement(port: GuardedPort, comment: string): Element {
  return { key: [ifnameValue(port.port), mac.encode(port.mac)], comment }
}

/** The elements that were looked for. Undefined where there is no such set. */
export interface SpoofCheckElements {
  guarded: FoundElements | undefined
  allowed: FoundElements | undefined
}

/** The elements for a port, where everything else is in place: refused when there is one for the port already. */
export function planNewGuard(port: GuardedPort, comment: string): Operation[] {
  return [
    create.elements(guarded, [guardedElement(port, comment)]),
    create.elements(allowed, [allowedElement(port, comment)]),
  ]
}

/**
 * What is missing to guard a port: table, chain, sets and rule, if need be, and the elements. Other elements for the same
 * port go: it has one owner and one MAC.
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

/** All that is there but for elements. What is there already stays, except for rules in the chain that are not ours. */
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

/** Whether two elements of one set have the same key and owner. */
export function isSame(a: Element, b: Element): boolean {
  return String(a.key) === String(b.key) && a.comment === b.comment
}

/** Removes the elements with a comment that `isStale`; with the last element the whole table. */
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
