import {
  type Change,
  type Content,
  chain as chains,
  inputOf,
  outputOf,
  printRule,
  type Removal,
  type Rule,
  rule as rules,
} from "../../../pkg/iptables/mod.ts"
import { isOwnerOf } from "../../../pkg/types/mod.ts"
import type { Policy } from "../config.ts"
import {
  acceptedAddress,
  acceptMarked,
  acceptRules,
  FORWARD,
  isAcceptMarked,
  isJumpToAdmin,
  jumpToAdmin,
  jumpToForward,
  jumpToPolicies,
  type Label,
  labelRule,
  OWNERS,
  PARENT,
  policyRules,
  readLabel,
  returns,
  STAGE_1,
  STAGE_2,
} from "./rules.ts"

/** The rules of an attachment in one address family. */
export interface IptablesSpec {
  network: string
  owner: string
  adminChain: string
  labels: readonly Label[]
  policy: Policy
  /** The bridge. If the previous result names a bridge, this is defined even without a policy. */
  bridge: string | undefined
}

/**
 * Returns a rule as text, without the policies in its comment: upstream's comments before 1.7, and those of another
 * network on the bridge, may list fewer policies.
 */
const textOf = (rule: Rule) => printRule(rule).replace(/ \(ingressPolicy: [a-z|-]+\)/, " (ingressPolicy)")
const alike = ({ rules }: Content, sought: Rule) => rules.filter((rule) => textOf(rule) === textOf(sought))
const has = (found: Content, sought: Rule) => indexOf(found, sought) !== -1
const indexOf = ({ rules }: Content, sought: Rule) => {
  const text = textOf(sought)
  return rules.findIndex((rule) => rule.chain === sought.chain && textOf(rule) === text)
}

/** The positions of a table's rules by their text, so that each rule is printed only once. */
export type Texts = ReadonlyMap<string, number>

export function textsOf({ rules }: Content): Texts {
  const places = new Map<string, number>()
  for (const [at, rule] of rules.entries()) {
    const text = textOf(rule)
    if (!places.has(text)) places.set(text, at)
  }
  return places
}

/**
 * Plans the missing rules of an attachment, in upstream's order, and the removal of its rules for other addresses and
 * of stale labels of its network. `found` is the whole table.
 */
export function planAdd(spec: IptablesSpec, found: Content): Change[] {
  const { network, owner, labels, adminChain } = spec
  const before = found.rules.flatMap((rule) => readLabel(rule) ?? [])
  const isHeld = ({ ip }: Label) => labels.some((own) => own.ip === ip)
  const after = before.flatMap((one): Label[] => {
    if (one.owner === owner || (isHeld(one) && isOwnerOf(one.owner, network))) return []
    const isOurs = isOwnerOf(one.owner, network) && one.bridge !== undefined && one.bridge === spec.bridge
    if (!isOurs) return [one]
    return [{ ...one, policy: spec.policy, bridge: spec.policy === "open" ? undefined : spec.bridge }]
  })
  const all = [...after, ...labels]
  const left = before.filter((one) => one.owner === owner && !all.some(({ ip }) => ip === one.ip))
  const bridges = [...before, ...all, { bridge: spec.bridge }].flatMap(({ bridge }) => bridge ?? [])
  const hasPolicies = all.some(({ bridge }) => bridge !== undefined)
  const wanted = labels.flatMap(({ ip }) => acceptRules(ip))
  const texts = textsOf(found)
  return [
    ...planChains(found, adminChain, hasPolicies),
    ...(found.chains.includes(OWNERS) ? [] : [chains.create(OWNERS)]),
    ...found.rules.filter((rule) => left.some(({ ip }) => ip === acceptedAddress(rule))).map(rules.remove),
    ...wanted.filter((rule) => !texts.has(textOf(rule))).map(rules.append),
    ...planLabels(before, all),
    ...[...new Set(bridges)].flatMap((bridge) => planBridge(found, bridge, strictest(all, bridge))),
  ]
}

/** Plans the rule that accepts what nf_tables accepts, after the administrator's rules in upstream's chain. */
export function planAcceptMarked(adminChain: string, found: Content): Change[] {
  const isThere = found.rules.some(isAcceptMarked)
  return [...planChains(found, adminChain, false), ...(isThere ? [] : [rules.append(acceptMarked)])]
}

/** Plans the shared chains and the jumps: first to the policies, then to the administrator's rules, then to others. */
function planChains(found: Content, adminChain: string, hasPolicies: boolean): Change[] {
  const needed = [FORWARD, adminChain, ...(hasPolicies ? [STAGE_1, STAGE_2] : [])]
  const isNew = !has(found, jumpToForward)
  const isMissing = hasPolicies && !has(found, jumpToPolicies)
  const isLate = has(found, jumpToPolicies) && (isNew || indexOf(found, jumpToPolicies) > indexOf(found, jumpToForward))
  const inForward = found.rules.filter((rule) => rule.chain === FORWARD)
  const admin = jumpToAdmin(adminChain)
  const ahead = inForward.slice(
    0,
    inForward.findIndex((rule) => printRule(rule) === printRule(admin)),
  )
  const isAdminThere = has(found, admin)
  const isAdminFirst = isAdminThere && ahead.every(isJumpToAdmin)
  return [
    ...needed.filter((chain) => !found.chains.includes(chain)).map(chains.create),
    ...(isNew ? [rules.prepend(jumpToForward)] : []),
    ...(isLate ? alike(found, jumpToPolicies).map(rules.remove) : []),
    ...(isLate || isMissing ? [rules.prepend(jumpToPolicies)] : []),
    ...(isAdminThere && !isAdminFirst ? [rules.remove(admin)] : []),
    ...(isAdminFirst ? [] : [rules.prepend(admin)]),
    ...(hasPolicies ? returns.flatMap((rule) => planReturn(found, rule)) : []),
  ]
}

/** Plans `sought` as the last rule of its chain. */
function planReturn(found: Content, sought: Rule): Change[] {
  const last = found.rules.filter(({ chain }) => chain === sought.chain).at(-1)
  if (last && textOf(last) === textOf(sought)) return []
  return [...alike(found, sought).map(rules.remove), rules.append(sought)]
}

function planLabels(before: readonly Label[], after: readonly Label[]): Change[] {
  const text = (label: Label) => printRule(labelRule(label))
  const [old, now] = [new Set(before.map(text)), new Set(after.map(text))]
  return [
    ...before.filter((label) => !now.has(text(label))).map((label) => rules.remove(labelRule(label))),
    ...after.filter((label) => !old.has(text(label))).map((label) => rules.append(labelRule(label))),
  ]
}

function strictest(labels: readonly Label[], bridge: string): Policy {
  const asked = labels.filter((label) => label.bridge === bridge).map(({ policy }) => policy)
  return asked.includes("isolated") ? "isolated" : (asked[0] ?? "open")
}

/** Plans the rules of a bridge in the chains of policies, and removes the bridge's former rules. */
function planBridge(found: Content, bridge: string, policy: Policy): Change[] {
  const wanted = policyRules(policy, bridge)
  const present = rulesOf(found, bridge)
  const isRight = present.length === wanted.length && wanted.every((rule) => has(found, rule))
  // Prepended in reverse order, so that the first rule ends up first.
  return isRight ? [] : [...present.map(rules.remove), ...[...wanted].reverse().map(rules.prepend)]
}

function rulesOf<R extends Rule>({ rules }: Content<R>, bridge: string): R[] {
  const isStage = ({ chain }: Rule) => chain === STAGE_1 || chain === STAGE_2
  return rules.filter((rule) => isStage(rule) && (inputOf(rule) ?? outputOf(rule)) === bridge)
}

export interface Stale {
  isOwnerStale(owner: string): boolean
  /** Addresses, like "10.1.0.2/32", and bridges of deleted containers, for upstream's rules, which have no owner. */
  addresses: readonly string[]
  bridges: readonly string[]
}

/**
 * Plans the removal of stale attachments' labels and accept rules, except for addresses that another attachment has
 * now. A bridge's policy rules are removed with the last attachment on the bridge, unless the Go plugin has rules.
 * Shared chains stay.
 */
export function planRemove<R extends Rule>(found: Content<R>, { isOwnerStale, addresses, bridges }: Stale): Removal<R> {
  const labels = found.rules.flatMap((rule) => {
    const label = readLabel(rule)
    return label ? [{ rule, ...label, isGone: isOwnerStale(label.owner) }] : []
  })
  const gone = labels.filter(({ isGone }) => isGone)
  const kept = labels.filter(({ isGone }) => !isGone)
  const isKept = (ip: string) => kept.some((label) => label.ip === ip)
  const sought = new Set([...gone.map(({ ip }) => ip), ...addresses].filter((ip) => !isKept(ip)))
  const accepts = found.rules.filter((rule) => sought.has(acceptedAddress(rule) ?? ""))
  const isUpstreams = (rule: Rule) => {
    const ip = acceptedAddress(rule)
    return ip !== undefined && !sought.has(ip) && !isKept(ip)
  }
  const isFree = (bridge: string) => !kept.some((label) => label.bridge === bridge)
  const candidates = new Set([...gone.flatMap(({ bridge }) => bridge ?? []), ...bridges])
  const free = found.rules.some(isUpstreams) ? [] : [...candidates].filter(isFree)
  const policies = free.flatMap((bridge) => rulesOf(found, bridge))
  // Rules of a stricter policy that the bridge no longer needs.
  const lowered = [...candidates].filter((bridge) => !isFree(bridge) && strictest(kept, bridge) !== "isolated")
  policies.push(
    ...lowered.flatMap((bridge) => rulesOf(found, bridge).filter((rule) => outputOf(rule) === inputOf(rule))),
  )
  return { rules: [...accepts, ...gone.map(({ rule }) => rule), ...policies], chains: [] }
}

/**
 * Returns the first rule of an attachment that is missing or in the wrong place; undefined if all are in place. Labels
 * are not checked, because the Go plugin adds none.
 */
export function findMissing(spec: IptablesSpec, found: Content, texts: Texts = textsOf(found)): string | undefined {
  const { labels, adminChain } = spec
  const needed = [jumpToForward, jumpToAdmin(adminChain), ...labels.flatMap(({ ip }) => acceptRules(ip))]
  const policy = spec.bridge === undefined ? [] : policyRules(spec.policy, spec.bridge)
  const all = [...needed, ...(policy.length > 0 ? [jumpToPolicies, ...policy] : [])]
  const missing = all.find((rule) => !texts.has(textOf(rule)))
  if (missing) return `rule "${printRule(missing)}"`
  const isLate = policy.length > 0 && indexOf(found, jumpToPolicies) > indexOf(found, jumpToForward)
  if (isLate) return `rule "${printRule(jumpToPolicies)}" before "${printRule(jumpToForward)}" in ${PARENT}`
  const first = found.rules.find((rule) => rule.chain === FORWARD)
  if (first && !isJumpToAdmin(first)) return `rule "${printRule(jumpToAdmin(adminChain))}" first in ${FORWARD}`
  return undefined
}
