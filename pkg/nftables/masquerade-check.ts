import { encodeUtf8 } from "../engine/mod.ts"
import { CniError, Code, type Owner, ownerComment } from "../types/mod.ts"
import { Lines } from "./lines.ts"
import {
  groupByLayout,
  type MasqueradeAddress,
  type MasqueradeLayout,
  networksOf,
  type Place,
  placesFor,
} from "./masquerade-layout.ts"
import { hasMasqueradeRules, listNetworkSets } from "./masquerade-state.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import { printElement, printRule } from "./print.ts"
import { findElements, listComments } from "./read.ts"

/**
 * Checks that the addresses of this attachment are masqueraded as `addMasquerade` has left it. Throws `CniError` that
 * tells what was expected and what was found, and `NetlinkError` when the rule set cannot be read.
 */
export function checkMasquerade(socket: Netfilter, owner: Owner, addresses: readonly MasqueradeAddress[]): void {
  const comment = ownerComment(owner)
  for (const { layout, addresses: ours } of groupByLayout(addresses)) {
    if (!hasMasqueradeRules(socket, layout, ours)) {
      throw missing(comment, printRules(layout, ours), printFoundRules(socket, layout))
    }
    const lines = new Lines(socket)
    for (const { set, element } of placesFor(layout, ours, comment)) {
      const { members } = lines.find(set, element.key)
      if (members[0] && members.some((one) => one?.comment === comment)) continue
      const expected = printPlace({ set, element })
      const needles = [encodeUtf8(comment), ...element.key.slice(0, 1)]
      throw missing(comment, expected, findSimilar(socket, layout, needles).map(printPlace).join(", ") || "nothing")
    }
  }
}

/** What stands anywhere in the sets with the owner's name or the address. */
function findSimilar(socket: Netfilter, layout: MasqueradeLayout, needles: readonly Uint8Array[]): Place[] {
  const { prefixes } = listNetworkSets(new Lines(socket), layout)
  const sets = [layout.containers, ...prefixes.map((prefix) => networksOf(layout, prefix).set)]
  return sets.flatMap((set) =>
    (findElements(socket, set, needles)?.elements ?? []).map((element) => ({ set, element })),
  )
}

function printPlace({ set, element }: Place): string {
  return `${printElement(set, element)} in set ${set.table.family} ${set.table.name} ${set.name}`
}

function printRules(layout: MasqueradeLayout, addresses: readonly MasqueradeAddress[]): string {
  const prefixes = new Set(addresses.map(({ prefix }) => prefix))
  const rules = [...[...prefixes].map((prefix) => networksOf(layout, prefix).rule), layout.rule]
  return rules.map(printRule).join(" and ")
}

function printFoundRules(socket: Netfilter, { chain }: MasqueradeLayout): string {
  const found = listComments(socket, chain).map((comment) => (comment === undefined ? "one without" : `"${comment}"`))
  return found.length === 0 ? "no rule" : `rules with the comments ${found.join(", ")}`
}

function missing(owner: string, expected: string, found: string): CniError {
  return new CniError(Code.Internal, `Cannot find the masquerade of ${owner}: expected ${expected}; found ${found}`)
}
