import type { NetlinkSocket } from "../netlink/mod.ts"
import { CniError, Code } from "../types/mod.ts"
import { containerElement, groupByLayout, type MasqueradeAddress, networkElement } from "./masquerade-layout.ts"
import { isSame } from "./masquerade-plan.ts"
import { readMasquerade } from "./masquerade-state.ts"
import { type Owner, ownerComment } from "./owner.ts"
import { printElement, printOperation } from "./print.ts"
import { add, type Element, type NamedSet } from "./rule-set.ts"

/**
 * Checks that the addresses of this attachment are masqueraded as `addMasquerade` has left it. Throws `CniError` that
 * tells what was expected and what was found.
 */
export function checkMasquerade(socket: NetlinkSocket, owner: Owner, addresses: readonly MasqueradeAddress[]): void {
  const comment = ownerComment(owner)
  for (const { layout, addresses: ours } of groupByLayout(addresses)) {
    const state = readMasquerade(socket, layout)
    if (!state.isComplete) throw missing(comment, printOperation(add.rule(layout.rule)).replace(/^add /, ""), "none")
    for (const address of ours) {
      expectElement(layout.containers, state.containers, containerElement(address, comment))
      expectElement(layout.networks, state.networks, networkElement(address, comment))
    }
  }
}

function expectElement(set: NamedSet, found: readonly Element[] = [], wanted: Element): void {
  if (found.some((element) => isSame(element, wanted))) return
  const similar = found.filter(
    ({ key, comment }) => String(key[0]) === String(wanted.key[0]) || comment === wanted.comment,
  )
  const where = `element of ${set.table.family} ${set.table.name} ${set.name}`
  const seen = similar.map((element) => printElement(set, element)).join(", ")
  throw missing(wanted.comment ?? "", `${where}: ${printElement(set, wanted)}`, seen || "none")
}

function missing(owner: string, expected: string, found: string): CniError {
  return new CniError(Code.Internal, `Cannot confirm the masquerade of ${owner}: expected ${expected}; found ${found}`)
}
