import { CniError, Code, type Owner, ownerComment } from "../types/mod.ts"
import { containerElement, groupByLayout, type MasqueradeAddress, networkElement } from "./masquerade-layout.ts"
import { isSame } from "./masquerade-plan.ts"
import { findMasquerade, hasMasqueradeRule } from "./masquerade-state.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import { printElement, printRule } from "./print.ts"
import type { FoundElements } from "./read.ts"
import type { Element, NamedSet } from "./rule-set.ts"

/**
 * Checks that the addresses of this attachment are masqueraded as `addMasquerade` has left it. Throws `CniError` that
 * tells what was expected and what was found, and `NetlinkError` when the rule set cannot be read.
 */
export function checkMasquerade(socket: Netfilter, owner: Owner, addresses: readonly MasqueradeAddress[]): void {
  const comment = ownerComment(owner)
  for (const { layout, addresses: ours } of groupByLayout(addresses)) {
    if (!hasMasqueradeRule(socket, layout))
      throw missing(comment, printRule(layout.rule), "no such rule, or others too")
    const needles = [new TextEncoder().encode(comment), ...ours.map(({ ip }) => ip)]
    const { containers, networks } = findMasquerade(socket, layout, needles)
    for (const address of ours) {
      expectElement(layout.containers, containers, containerElement(address, comment))
      expectElement(layout.networks, networks, networkElement(address, comment))
    }
  }
}

function expectElement(set: NamedSet, found: FoundElements | undefined, wanted: Element): void {
  const elements = found?.elements ?? []
  if (elements.some((element) => isSame(element, wanted))) return
  const similar = elements.filter(
    ({ key, comment }) => String(key[0]) === String(wanted.key[0]) || comment === wanted.comment,
  )
  const expected = `${printElement(set, wanted)} in set ${set.table.family} ${set.table.name} ${set.name}`
  const seen = similar.map((element) => printElement(set, element)).join(", ")
  throw missing(wanted.comment ?? "", expected, seen || "nothing of the kind")
}

function missing(owner: string, expected: string, found: string): CniError {
  return new CniError(Code.Internal, `Cannot find the masquerade of ${owner}: expected ${expected}; found ${found}`)
}
