import type { NetlinkSocket } from "../netlink/mod.ts"
import { type Cidr, CniError, Code, type Owner, ownerComment } from "../types/mod.ts"
import { findEverywhere } from "./everywhere.ts"
import { byFamily } from "./masquerade.ts"
import { type MasqueradeRules, masqueradeRules, masqueradeSearch, TABLE } from "./masquerade-rules.ts"
import { type Content, commentOf, isSameRule, printRule, type Rule } from "./rule.ts"

/**
 * Checks that the addresses of this attachment are masqueraded by iptables, in one of the places where it keeps rules,
 * whichever suite has made them. Throws `CniError` that tells what was expected and what was found, and `NetlinkError`
 * when the rules cannot be read.
 */
export function checkIptablesMasquerade(
  socket: NetlinkSocket | undefined,
  owner: Owner,
  addresses: readonly Cidr[],
): void {
  const found = findEverywhere(socket, TABLE, masqueradeSearch(owner))
  for (const [family, list] of byFamily(addresses)) {
    const wanted = masqueradeRules(family, owner, list)
    const faults = found.filter((place) => place.family === family).map((place) => findFault(wanted, place))
    if (faults.includes(undefined)) continue
    const reason = faults[0] ?? `expected chain ${wanted.chain} in table ${family} ${TABLE}; found none`
    throw new CniError(Code.Internal, `Cannot find the masquerade of ${ownerComment(owner)} by iptables: ${reason}`)
  }
}

/** The first rule that is not there, in words; undefined when all are. */
function findFault({ comment, accepts, masquerade, jumps }: MasqueradeRules, { rules }: Content): string | undefined {
  const missing = [...accepts, masquerade, ...jumps].find((wanted) => !rules.some((rule) => isSameRule(rule, wanted)))
  return missing && `expected rule "${printRule(missing)}"; found ${describe(rules, missing, comment)}`
}

function describe(rules: readonly Rule[], { chain }: Rule, comment: string): string {
  const similar = rules.filter((rule) => rule.chain === chain && commentOf(rule) === comment)
  return similar.map((rule) => `"${printRule(rule)}"`).join(", ") || "none of the kind"
}
