import {
  type Change,
  type Content,
  chain as chains,
  commentOf,
  containerComment,
  destinationOf,
  isSameRule,
  networkComment,
  printRule,
  type Removal,
  type Rule,
  rule as rules,
  sourceOf,
  targetOf,
} from "../iptables/mod.ts"
import { type Owner, staleOf } from "../types/mod.ts"
import type { MasqueradeRules } from "./iptables-rules.ts"

/** The stale rules in a container's chain. */
export interface Stale {
  chain: string
  /** Upstream's comment: rules with another one belong to a container whose chain happens to have the same name. */
  comment: string
  /** Whether the attachment named by a mark is stale. */
  isOwnerStale(ownerComment: string): boolean
  /** Whether an address without a mark, "10.1.0.2/32", is stale: upstream does not record its owner. */
  isAddressStale(source: string): boolean
}

/**
 * Plans the rules: the chain with upstream's rules in their order and the marks after them, and the jumps to it. Rules
 * of the container's other interfaces stay; leftovers of this one are removed. A correct chain is not touched.
 */
export function planAdd(target: MasqueradeRules, found: Content, ownerComment: string): Change[] {
  const { chain, comment } = target
  const isStale = (text: string) => text === ownerComment
  const stale = planRemove(found, { chain, comment, isOwnerStale: isStale, isAddressStale: () => false })
  const kept = found.rules.filter((rule) => !stale.rules.includes(rule) && !stale.chains.includes(rule.chain))
  const content = arrange(
    target,
    kept.filter((rule) => rule.chain === chain),
  )
  const present = found.rules.filter((rule) => rule.chain === chain)
  const isInOrder = found.chains.includes(chain) && isSameList(present, content)
  const isJump = (rule: Rule) => rule.chain !== chain
  const staleJumps = found.rules.filter((rule) => isJump(rule) && !kept.includes(rule) && !includes(target.jumps, rule))
  const newJumps = target.jumps.filter((jump) => !includes(found.rules, jump))
  return [
    ...staleJumps.map(rules.remove),
    ...(isInOrder ? [] : [chains.reset(chain), ...content.map(rules.append)]),
    ...newJumps.map(rules.append),
  ]
}

/** Returns the rules of the chain: the networks that are reached directly, the masquerade, and the marks. */
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
 * Plans the removal of a stale interface: its jumps and marks, and the networks that no other interface needs; with the
 * last jump, the whole chain.
 */
export function planRemove<R extends Rule>(found: Content<R>, stale: Stale): Removal<R> {
  if (!found.chains.includes(stale.chain)) return { rules: [], chains: [] }
  const inside = found.rules.filter(({ chain }) => chain === stale.chain)
  const jumps = found.rules.filter((rule) => rule.chain !== stale.chain && targetOf(rule) === stale.chain)
  const marks = inside.filter((rule) => targetOf(rule) === undefined && commentOf(rule) !== undefined)
  const [staleMarks, keptMarks] = split(marks, (mark) => stale.isOwnerStale(commentOf(mark) ?? ""))
  const marked = new Set(keptMarks.map(sourceOf))
  const staleSources = new Set(staleMarks.map(sourceOf))
  const isStale = (jump: R) => {
    const source = sourceOf(jump)
    if (commentOf(jump) !== stale.comment || marked.has(source)) return false
    return staleSources.has(source) || source === undefined || stale.isAddressStale(source)
  }
  const [staleJumps, keptJumps] = split(jumps, isStale)
  if (keptJumps.length === 0) return { rules: staleJumps, chains: [stale.chain] }
  const isEveryMarked = keptJumps.every((jump) => marked.has(sourceOf(jump)))
  const needed = new Set(keptMarks.map(destinationOf))
  const isUnused = (rule: R) => {
    const network = destinationOf(rule)
    const isOurs = targetOf(rule) === "ACCEPT" && commentOf(rule) === stale.comment
    return isOurs && isEveryMarked && network !== undefined && !needed.has(network)
  }
  return { rules: [...staleJumps, ...staleMarks, ...inside.filter(isUnused)], chains: [] }
}

function split<R>(list: readonly R[], isFirst: (item: R) => boolean): [R[], R[]] {
  return [list.filter(isFirst), list.filter((item) => !isFirst(item))]
}

function includes(list: readonly Rule[], sought: Rule): boolean {
  return list.some((rule) => isSameRule(rule, sought))
}

function isSameList(a: readonly Rule[], b: readonly Rule[]): boolean {
  return a.map(printRule).join("\n") === b.map(printRule).join("\n")
}

/**
 * Plans the removal of a network's masquerades except those of the valid attachments. Of a container with a valid one
 * only marked addresses are removed, of all others everything; other networks stay.
 */
export function planGc<R extends Rule>(found: Content<R>, network: string, validOwners: readonly Owner[]): Removal<R> {
  const validContainers = new Set(validOwners.map((owner) => containerComment(owner)))
  const isOwnerStale = staleOf(network, validOwners)
  const removals = found.chains.flatMap((chain) =>
    commentsOf(found, chain, networkComment(network)).map((comment) => {
      const isAddressStale = () => !validContainers.has(comment)
      return planRemove(found, { chain, comment, isOwnerStale, isAddressStale })
    }),
  )
  return { rules: removals.flatMap(({ rules }) => rules), chains: removals.flatMap(({ chains }) => chains) }
}

/** Returns the comments with this beginning in a chain and on jumps to it, each once. */
function commentsOf({ rules }: Content, chain: string, beginning: string): string[] {
  const related = rules.filter((rule) => rule.chain === chain || targetOf(rule) === chain)
  return [...new Set(related.flatMap((rule) => commentOf(rule) ?? []))].filter((text) => text.startsWith(beginning))
}
