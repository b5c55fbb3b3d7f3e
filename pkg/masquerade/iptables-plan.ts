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

export interface Stale {
  chain: string
  /**
   * The Go plugins' comment on the container's rules. A rule with another comment is of another container, whose chain
   * has the same name.
   */
  comment: string
  /** Reports whether the attachment that the comment of a mark names is stale. */
  isOwnerStale(ownerComment: string): boolean
  /** Reports whether an address without a mark, "10.1.0.2/32", is stale: the Go plugins record no interface. */
  isAddressStale(source: string): boolean
}

/**
 * Plans the chain of a container and the jumps to it. The chain has the rules of the Go plugins in their order, and
 * then the marks. Rules of the container's other interfaces stay; old rules of this interface are removed. A chain that
 * is already correct is not changed.
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

/** Returns the rules of the chain in order: the networks that are not masqueraded, the masquerade, and the marks. */
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

/** Plans the removal of an interface's jumps, marks and unshared networks; of the whole chain if no jump is left. */
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
 * Plans the removal of all masquerades of a network except those of the valid attachments. If a container has a valid
 * attachment, only its addresses with a mark are removed; if not, all its rules are. Other networks are not changed.
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

/** Returns the distinct comments of rules in a chain and of jumps to it that begin with this text. */
function commentsOf({ rules }: Content, chain: string, beginning: string): string[] {
  const related = rules.filter((rule) => rule.chain === chain || targetOf(rule) === chain)
  return [...new Set(related.flatMap((rule) => commentOf(rule) ?? []))].filter((text) => text.startsWith(beginning))
}
