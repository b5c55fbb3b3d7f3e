import { type Change, chain as chains, rule as rules } from "./change.ts"
import type { MasqueradeRules } from "./masquerade-rules.ts"
import {
  type Content,
  commentOf,
  destinationOf,
  isSameRule,
  printRule,
  type Removal,
  type Rule,
  sourceOf,
  targetOf,
} from "./rule.ts"

/** What of a container's chain is gone. */
export interface Gone {
  chain: string
  /** Upstream's comment: rules with another one are those of a container whose chain has the same name by accident. */
  comment: string
  /** Whether the interface that a mark names is gone. */
  isOwnerGone(ownerComment: string): boolean
  /** Whether an address without a mark, "10.1.0.2/32", is gone: upstream does not say whose it is. */
  isAddressGone(source: string): boolean
}

/**
 * Makes the rules be there: the chain with upstream's rules in their order and the marks after them, and the jumps to
 * it. What other interfaces of the container have in the chain stays; what this one has left there does not. A chain
 * that is as it should be is not touched.
 */
export function planAdd(wanted: MasqueradeRules, found: Content, ownerComment: string): Change[] {
  const { chain, comment } = wanted
  const isStale = (text: string) => text === ownerComment
  const stale = planRemove(found, { chain, comment, isOwnerGone: isStale, isAddressGone: () => false })
  const kept = found.rules.filter((rule) => !stale.rules.includes(rule) && !stale.chains.includes(rule.chain))
  const content = arrange(
    wanted,
    kept.filter((rule) => rule.chain === chain),
  )
  const present = found.rules.filter((rule) => rule.chain === chain)
  const isAsWanted = found.chains.includes(chain) && isSameList(present, content)
  const isJump = (rule: Rule) => rule.chain !== chain
  const goneJumps = found.rules.filter((rule) => isJump(rule) && !kept.includes(rule) && !includes(wanted.jumps, rule))
  const newJumps = wanted.jumps.filter((jump) => !includes(found.rules, jump))
  return [
    ...goneJumps.map(rules.remove),
    ...(isAsWanted ? [] : [chains.reset(chain), ...content.map(rules.append)]),
    ...newJumps.map(rules.append),
  ]
}

/** The rules of the chain: what reaches directly, the masquerade, and the marks. */
function arrange({ accepts, masquerade, marks }: MasqueradeRules, kept: readonly Rule[]): Rule[] {
  const others = kept.filter((rule) => !isSameRule(rule, masquerade))
  const isMark = (rule: Rule) => targetOf(rule) === undefined
  const ordered = [
    ...others.filter((rule) => !isMark(rule)),
    ...accepts,
    masquerade,
    ...others.filter(isMark),
    ...marks,
  ]
  return [...new Map(ordered.map((rule) => [printRule(rule), rule])).values()]
}

/**
 * What goes with a gone interface: its jumps and marks, and the networks that no other interface needs; with the last
 * jump the chain and everything in it.
 */
export function planRemove<R extends Rule>(found: Content<R>, gone: Gone): Removal<R> {
  if (!found.chains.includes(gone.chain)) return { rules: [], chains: [] }
  const inside = found.rules.filter(({ chain }) => chain === gone.chain)
  const jumps = found.rules.filter((rule) => rule.chain !== gone.chain && targetOf(rule) === gone.chain)
  const marks = inside.filter((rule) => targetOf(rule) === undefined && commentOf(rule) !== undefined)
  const [goneMarks, keptMarks] = split(marks, (mark) => gone.isOwnerGone(commentOf(mark) ?? ""))
  const marked = new Set(keptMarks.map(sourceOf))
  const goneSources = new Set(goneMarks.map(sourceOf))
  const isGone = (jump: R) => {
    const source = sourceOf(jump)
    if (commentOf(jump) !== gone.comment || marked.has(source)) return false
    return goneSources.has(source) || source === undefined || gone.isAddressGone(source)
  }
  const [goneJumps, keptJumps] = split(jumps, isGone)
  if (keptJumps.length === 0) return { rules: goneJumps, chains: [gone.chain] }
  const isEveryMarked = keptJumps.every((jump) => marked.has(sourceOf(jump)))
  const needed = new Set(keptMarks.map(destinationOf))
  const isUnused = (rule: R) => {
    const network = destinationOf(rule)
    const isOurs = targetOf(rule) === "ACCEPT" && commentOf(rule) === gone.comment
    return isOurs && isEveryMarked && network !== undefined && !needed.has(network)
  }
  return { rules: [...goneJumps, ...goneMarks, ...inside.filter(isUnused)], chains: [] }
}

function split<R>(list: readonly R[], isFirst: (item: R) => boolean): [R[], R[]] {
  return [list.filter(isFirst), list.filter((item) => !isFirst(item))]
}

function includes(list: readonly Rule[], wanted: Rule): boolean {
  return list.some((rule) => isSameRule(rule, wanted))
}

function isSameList(a: readonly Rule[], b: readonly Rule[]): boolean {
  return a.map(printRule).join("\n") === b.map(printRule).join("\n")
}
