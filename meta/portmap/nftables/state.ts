import { type NetlinkSocket, text } from "../../../pkg/netlink/mod.ts"
import {
  type FoundElements,
  type FoundRule,
  findElements,
  hasRules,
  listRules,
  type NamedSet,
} from "../../../pkg/nftables/mod.ts"
import type { Layout } from "./layout.ts"
import { decodeNote } from "./note.ts"

/** What of a layout is there: the elements that were looked for, and the rules of conditions. */
export interface State {
  /** Undefined where there is no such set. */
  found: ReadonlyMap<NamedSet, FoundElements>
  conditions: readonly FoundRule[]
}

/** The sets and maps whose elements have owners. */
export function ownedSets({ ports, addressPorts, hairpin, localhost, everybody }: Layout): NamedSet[] {
  return [ports, addressPorts, hairpin, ...(localhost ? [localhost] : []), everybody]
}

/** Reads all elements and rules, or of many those that have one of `needles` in their bytes. Throws `NetlinkError`. */
export function readState(
  socket: Pick<NetlinkSocket, "dump">,
  layout: Layout,
  needles?: readonly Uint8Array[],
): State | undefined {
  const found = new Map<NamedSet, FoundElements>()
  for (const set of ownedSets(layout)) {
    const elements = findElements(socket, set, needles)
    if (elements) found.set(set, elements)
  }
  if (found.size === 0) return undefined // there is no such table
  return { found, conditions: listRules(socket, layout.conditions, needles) }
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
  const found = findElements(socket, hairpin)?.elements ?? []
  return [...new Set(found.flatMap(({ note }) => decodeNote(note)?.prefix ?? []))]
}

/** The interfaces whose `route_localnet` goes off with the last mapping. Throws `NetlinkError`. */
export function listLocalnetLinks(socket: Pick<NetlinkSocket, "dump">, { localnetLinks }: Layout): string[] {
  const found = localnetLinks && findElements(socket, localnetLinks)
  return (found?.elements ?? []).map(({ key: [name = new Uint8Array(0)] }) => text.decode(name))
}
