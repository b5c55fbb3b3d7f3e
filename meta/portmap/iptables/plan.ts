import {
  type Change,
  type Content,
  chain as chains,
  commentOf,
  printRule,
  type Removal,
  type Rule,
  removalChanges,
  rule as rules,
  targetOf,
} from "../../../pkg/iptables/mod.ts"
import { missingRules } from "../../../pkg/rules/mod.ts"
import {
  type CniError,
  formatIp,
  isOfContainer,
  isOwnerOf,
  type Owner,
  ownerComment,
  staleOf,
} from "../../../pkg/types/mod.ts"
import { portTaken } from "../mapping.ts"
import {
  CONTAINER_CHAIN,
  hostPortOf,
  type IptablesRules,
  isJumpCommentIn,
  isJumpCommentOf,
  isJumpFor,
  jumpComments,
  readLabel,
  translatedAddress,
  translationOf,
} from "./rules.ts"

/** The rules of one attachment in its container's chain. */
export interface AttachmentRules<R extends Rule = Rule> {
  /** The owner in the label before the rules: "network/container/interface"; undefined for rules of upstream. */
  owner: string | undefined
  /** The path of the container's namespace; undefined if it is unknown. */
  netns: string | undefined
  /** The rules, beginning with the label. */
  rules: R[]
}

function attachmentsIn<R extends Rule>({ rules }: Content<R>, chain: string): AttachmentRules<R>[] {
  const attachments: AttachmentRules<R>[] = []
  for (const rule of rules) {
    if (rule.chain !== chain) continue
    const label = readLabel(rule)
    const last = attachments.at(-1)
    if (!label && last) last.rules.push(rule)
    else attachments.push({ owner: label?.owner, netns: label?.netns, rules: [rule] })
  }
  return attachments
}

function jumpsTo<R extends Rule>({ rules }: Content<R>, chain: string): R[] {
  return rules.filter((rule) => rule.chain !== chain && targetOf(rule) === chain)
}

/**
 * Plans the rules of an attachment, and the removal of its old rules in the container's chain. Rules of the container's
 * other attachments stay. `found` is the whole table. `isGone` reports whether another container that holds a port
 * provably no longer exists. Throws `CniError` that names the current holder of a port.
 */
export function planAdd(spec: IptablesRules, found: Content, isGone: (holder: AttachmentRules) => boolean): Change[] {
  const { chain, owner, shared, entries, label, content, jumps } = spec
  const takeOver = removalChanges(planTakeOver(spec, found, isGone))
  const present = new Set(found.rules.map(printRule))
  const isMissing = (rule: Rule) => !present.has(printRule(rule))
  // Existing attachments keep their order: if attachments of a container share a port, the first one gets the packets.
  const before = attachmentsIn(found, chain).filter((one) => one.owner !== undefined)
  const own = { owner, netns: undefined, rules: [label, ...content] }
  const after = before.map((one) => (one.owner === owner ? own : one))
  if (!after.includes(own)) after.push(own)
  const others = after.filter((one) => one !== own)
  const ownJumps = new Set(jumps.map(printRule))
  const staleJumps = jumpsTo(found, chain).filter(
    (jump) => !ownJumps.has(printRule(jump)) && !others.some((one) => isJumpFor(jump, one.rules)),
  )
  return [
    ...shared.filter((one) => !found.chains.includes(one.chain)).map((one) => chains.create(one.chain)),
    ...shared.flatMap((one) => one.rules.filter(isMissing)).map(rules.append),
    ...takeOver,
    ...staleJumps.map(rules.remove),
    chains.reset(chain),
    ...after.flatMap((one) => one.rules).map(rules.append),
    ...entries.filter(isMissing).map((one) => (one.chain === "POSTROUTING" ? rules.prepend(one) : rules.append(one))),
    ...jumps.filter(isMissing).map(rules.append),
  ]
}

/** Plans the removal of conflicting rules of deleted containers and of former holders of this address. */
function planTakeOver(spec: IptablesRules, found: Content, isGone: (holder: AttachmentRules) => boolean): Removal {
  const ports = hostPortsOf(spec)
  // Chains in the order in which packets traverse them, so that an error names the attachment that gets the packets.
  const reached = new Set(found.rules.flatMap((rule) => targetOf(rule) ?? []))
  const others = [...reached].filter((name) => CONTAINER_CHAIN.test(name) && name !== spec.chain)
  const removals = others.map((chain): Removal => {
    const jumps = jumpsTo(found, chain)
    const conflicting = attachmentsIn(found, chain).filter((one) => one.rules.some((rule) => isAmong(ports, rule)))
    const going = conflicting.filter((one) => {
      if (isFormerHolder(spec, one, jumps)) return true
      if (isSameContainers(spec, one, jumps)) return false
      if (!isGone(one)) throw taken(spec, one, jumps[0])
      return true
    })
    return going.length === 0 ? NOTHING : without(found, chain, going)
  })
  return merge(removals)
}

function hostPortsOf({ content }: IptablesRules): ReadonlySet<string> {
  return new Set(content.flatMap((rule) => hostPortOf(rule) ?? []))
}

function isAmong(ports: ReadonlySet<string>, rule: Rule): boolean {
  return ports.has(hostPortOf(rule) ?? "")
}

/**
 * Reports whether rules are another attachment's of the same container. Both may have a port; the first rules apply.
 */
function isSameContainers({ containerId }: IptablesRules, one: AttachmentRules, jumps: readonly Rule[]): boolean {
  if (one.owner !== undefined) return isOfContainer(one.owner, containerId)
  return jumps.some((jump) => isJumpCommentOf(commentOf(jump) ?? "", containerId))
}

/**
 * Reports whether rules are a former holder's of this address: a network gives an address to one container at a time.
 */
function isFormerHolder({ network, mapped }: IptablesRules, one: AttachmentRules, jumps: readonly Rule[]): boolean {
  const ip = String(mapped.address.ip)
  if (!one.rules.some((rule) => String(translatedAddress(rule)) === ip)) return false
  if (one.owner !== undefined) return isOwnerOf(one.owner, network)
  return jumps.some((jump) => isJumpCommentIn(commentOf(jump) ?? "", network))
}

/** Returns the addresses of the container's other attachments that have the same host ports. */
export function findAhead(spec: IptablesRules, found: Content): Uint8Array[] {
  const ports = hostPortsOf(spec)
  return found.chains.flatMap((chain) => {
    const jumps = CONTAINER_CHAIN.test(chain) ? jumpsTo(found, chain) : []
    if (jumps.length === 0) return []
    const others = attachmentsIn(found, chain).filter((one) => {
      return one.owner !== spec.owner && isSameContainers(spec, one, jumps)
    })
    const shared = others.flatMap((one) => one.rules).filter((rule) => isAmong(ports, rule))
    return shared.flatMap((rule) => translatedAddress(rule) ?? [])
  })
}

/** Plans the removal of an attachment's rules from the container's chains, and of chains without attachments. */
export function planDelete<R extends Rule>(found: Content<R>, owner: Owner): Removal<R> {
  const comment = ownerComment(owner)
  const comments = jumpComments(owner)
  const removals = found.chains.map((chain): Removal<R> => {
    const jumps = jumpsTo(found, chain)
    // Chains of two containers can have the same name by chance. The comments of the jumps tell them apart.
    if (jumps.length > 0 && !jumps.some((jump) => comments.includes(commentOf(jump) ?? ""))) return NOTHING
    const isGoing = (one: AttachmentRules) => one.owner === undefined || one.owner === comment
    return without(found, chain, attachmentsIn(found, chain).filter(isGoing))
  })
  return merge(removals)
}

export function planGc<R extends Rule>(found: Content<R>, network: string, validOwners: readonly Owner[]): Removal<R> {
  const isOwnerStale = staleOf(network, validOwners)
  const validJumps = new Set(validOwners.flatMap(jumpComments))
  const removals = found.chains.map((chain): Removal<R> => {
    const attachments = attachmentsIn(found, chain)
    const comments = jumpsTo(found, chain).flatMap((jump) => commentOf(jump) ?? [])
    const isOfNetwork = ({ owner }: AttachmentRules) => owner !== undefined && isOwnerOf(owner, network)
    // Another process may just be creating a chain that has neither jumps nor labels.
    if (!comments.some((text) => isJumpCommentIn(text, network)) && !attachments.some(isOfNetwork)) return NOTHING
    const isValid = comments.some((comment) => validJumps.has(comment))
    const isStale = (one: AttachmentRules) => (one.owner === undefined ? !isValid : isOwnerStale(one.owner))
    return without(found, chain, attachments.filter(isStale))
  })
  return merge(removals)
}

const NOTHING = { rules: [], chains: [] } as const

/** Returns the removal of attachments from a chain, and of the chain and its jumps if no attachment is left. */
function without<R extends Rule>(found: Content<R>, chain: string, going: readonly AttachmentRules<R>[]): Removal<R> {
  if (attachmentsIn(found, chain).length > going.length)
    return { rules: going.flatMap(({ rules }) => rules), chains: [] }
  return { rules: jumpsTo(found, chain), chains: [chain] }
}

function merge<R extends Rule>(removals: readonly Removal<R>[]): Removal<R> {
  return { rules: removals.flatMap(({ rules }) => rules), chains: removals.flatMap(({ chains }) => chains) }
}

function taken({ mapped, owner, content }: IptablesRules, holder: AttachmentRules, jump: Rule | undefined): CniError {
  const own = new Map(content.map((rule) => [hostPortOf(rule), rule]))
  const theirs = holder.rules.find((rule) => hostPortOf(rule) !== undefined && own.has(hostPortOf(rule)))
  const ours = theirs && own.get(hostPortOf(theirs))
  const [protocol = "", port = "", hostIp] = (theirs && hostPortOf(theirs))?.split(" ") ?? []
  return portTaken(
    {
      port: `${hostIp ? `${hostIp.replace(/\/.*/, "")}:` : ""}${port}/${protocol}`,
      target: (ours && translationOf(ours)) ?? formatIp(mapped.address.ip),
      owner,
    },
    { target: theirs && translationOf(theirs), name: holder.owner ?? (jump && commentOf(jump)) },
  )
}

/**
 * Returns the error for the first missing rule; undefined if none is missing. A jump with conditions is identified by
 * its comment and target, because `iptables` prints the conditions in its own order.
 */
export function findMissing(
  spec: IptablesRules,
  { rules }: Content,
  hasConditions: boolean,
  present: ReadonlySet<string> = new Set(rules.map(printRule)),
): CniError | undefined {
  const { owner, shared, entries, content, jumps } = spec
  const isAlike = (a: Rule, b: Rule) => targetOf(a) === targetOf(b) && commentOf(a) === commentOf(b)
  const exact = [...shared.flatMap((one) => one.rules), ...entries, ...content, ...(hasConditions ? [] : jumps)]
  const missing =
    exact.find((rule) => !present.has(printRule(rule))) ??
    jumps.find((jump) => !rules.some((rule) => isAlike(rule, jump)))
  if (!missing) return undefined
  const similar = rules.filter((rule) => rule.chain === missing.chain && targetOf(rule) === targetOf(missing))
  const found = similar.map((rule) => `"${printRule(rule)}"`).join(", ") || "no similar rule"
  return missingRules(`a port mapping of ${owner} by iptables`, `rule "${printRule(missing)}"`, found)
}
