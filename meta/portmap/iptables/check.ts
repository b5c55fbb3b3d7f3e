import { type Content, commentOf, printRule, type Rule, targetOf } from "../../../pkg/iptables/mod.ts"
import { CniError, Code } from "../../../pkg/types/mod.ts"
import type { IptablesRules } from "./rules.ts"

/**
 * The first rule that is not there, as an error; undefined when all are. `iptables` prints conditions in an order of its
 * own, so with them a jump counts by its comment and target.
 */
export function findFault(
  { owner, shared, entries, content, jumps }: IptablesRules,
  { rules }: Content,
  hasConditions: boolean,
): CniError | undefined {
  const present = new Set(rules.map(printRule))
  const isThere = (wanted: Rule) => present.has(printRule(wanted))
  const isLedThere = (wanted: Rule) =>
    rules.some((rule) => targetOf(rule) === targetOf(wanted) && commentOf(rule) === commentOf(wanted))
  const exact = [...shared.flatMap((one) => one.rules), ...entries, ...content, ...(hasConditions ? [] : jumps)]
  const missing = exact.find((rule) => !isThere(rule)) ?? jumps.find((rule) => !isLedThere(rule))
  if (!missing) return undefined
  const similar = rules.filter((rule) => rule.chain === missing.chain && targetOf(rule) === targetOf(missing))
  const found = similar.map((rule) => `"${printRule(rule)}"`).join(", ") || "none of the kind"
  const expected = `rule "${printRule(missing)}"`
  return new CniError(
    Code.Internal,
    `Cannot find a port mapping of ${owner} by iptables: expected ${expected}; found ${found}`,
  )
}
