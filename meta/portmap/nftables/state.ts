import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  type FoundElements,
  type FoundRule,
  findElements,
  hasRules,
  type Lines,
  listRules,
  type NamedSet,
  type SharedSet,
} from "../../../pkg/nftables/mod.ts"
import type { Layout } from "./layout.ts"
import { decodeNote } from "./note.ts"

/** What of a layout is there: the elements that were looked for, and the rules of conditions. */
export interface State {
  /** Undefined where there is no such set. Those that stand by are in sets of their own. */
  found: ReadonlyMap<NamedSet, FoundElements>
  conditions: readonly FoundRule[]
}

/** The sets and maps whose elements have owners. */
export function ownedSets({ ports, addressPorts, hairpin, localhost, everybody }: Layout): SharedSet[] {
  return [ports, addressPorts, hairpin, ...(localhost ? [localhost] : []), everybody]
}

/** Reads all elements and rules, or of many those that have one of `needles` in their bytes. Throws `NetlinkError`. */
export function readState(
  socket: Pick<NetlinkSocket, "dump">,
  lines: Lines,
  layout: Layout,
  needles?: readonly Uint8Array[],
): State {
  const found = new Map<NamedSet, FoundElements>()
  for (const set of ownedSets(layout).flatMap((set) => [set, set.standby])) {
    const elements = lines.has(set) ? findElements(socket, set, needles) : undefined
    if (elements) found.set(set, elements)
  }
  return { found, conditions: found.size === 0 ? [] : listRules(socket, layout.conditions, needles) }
}

/** Whether all rules are there: the kernel keeps the chains and sets for as long as a rule needs them. */
export function isComplete(
  socket: Pick<NetlinkSocket, "dump">,
  { table, rules, hairpinRule }: Layout,
  hairpinPrefix: number | undefined,
): boolean {
  const wanted = hairpinPrefix === undefined ? rules : [...rules, hairpinRule(hairpinPrefix)]
  const comments = wanted.flatMap(({ comment }) => comment ?? [])
  return hasRules(socket, table, comments)
}

/** The prefix lengths that elements need a hairpin rule for. Throws `NetlinkError`. */
export function listHairpinPrefixes(socket: Pick<NetlinkSocket, "dump">, { hairpin }: Layout): number[] {
  const sets = [hairpin, hairpin.standby]
  const found = sets.flatMap((set) => findElements(socket, set)?.elements ?? [])
  return [...new Set(found.flatMap(({ note }) => decodeNote(note)?.prefix ?? []))]
}
