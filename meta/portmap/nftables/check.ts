import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import { getElement, type NamedSet, printElement, printRule } from "../../../pkg/nftables/mod.ts"
import { CniError, Code } from "../../../pkg/types/mod.ts"
import type { Request } from "../request.ts"
import { isSame } from "./elements.ts"
import { isComplete, readState } from "./state.ts"
import { type Wanted, wantedOf } from "./wanted.ts"

/**
 * Checks that all is in nf_tables as `addHostports` has left it. Throws `CniError` that tells what was expected and what
 * was found, or `NetlinkError`.
 */
export function checkHostports(socket: NetlinkSocket, request: Request): void {
  for (const wanted of wantedOf(request)) {
    const { layout, comment, groups, hairpinPrefix } = wanted
    if (!isComplete(socket, layout, hairpinPrefix)) {
      const hairpin = hairpinPrefix === undefined ? [] : [layout.hairpinRule(hairpinPrefix)]
      const rules = [...layout.rules, ...hairpin].map((rule) => `"${printRule(rule)}"`).join(", ")
      throw missing(comment, `the rules ${rules}`, "not all of them")
    }
    for (const { set, elements } of groups) {
      for (const element of elements) {
        const found = getElement(socket, set, element.key)
        if (found && isSame(found, element) && found.comment === comment) continue
        throw missing(comment, printIn(set, printElement(set, element)), found ? printElement(set, found) : "none")
      }
    }
    if (wanted.conditions !== "") checkConditions(socket, wanted)
  }
}

function checkConditions(socket: NetlinkSocket, { layout, comment, conditions }: Wanted): void {
  const state = readState(socket, layout, [encodeUtf8(comment)])
  if (state?.conditions.some((rule) => rule.comment === comment)) return
  const { table, name } = layout.conditions
  throw missing(comment, `a rule for "${conditions}" in chain ${table.family} ${table.name} ${name}`, "none")
}

function printIn({ table, name }: NamedSet, element: string): string {
  return `${element} in ${table.family} ${table.name} ${name}`
}

function missing(owner: string, expected: string, found: string): CniError {
  return new CniError(Code.Internal, `Cannot find a port mapping of ${owner}: expected ${expected}; found ${found}`)
}
