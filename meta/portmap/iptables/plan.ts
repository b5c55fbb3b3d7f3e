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
import { CniError, Code, isOfContainer, isOwnerOf, type Owner, ownerComment, parseIp } from "../../../pkg/types/mod.ts"
import { type Block, blocksOf, endOf, isJumpFor, leadsTo, translationOf } from "./blocks.ts"
import { CONTAINER_CHAIN, type IptablesRules, isJumpCommentOf, jumpComments, networkComments } from "./rules.ts"

/**
 * Makes the rules be there, and what this attachment has left in the container's chain go; its other attachments' rules
 * stay. `found` is the whole table. `isGone` says of another's block whether its owner is provably gone. Throws `CniError`
 * that names the holder of a port who is not.
 */
export function planAdd(wanted: IptablesRules, found: Content, isGone: (block: Block) => boolean): Change[] {
  const { chain, owner, shared, entries, mark, content, jumps } = wanted
  const takeOver = removalChanges(planTakeOver(wanted, found, isGone))
  const present = new Set(found.rules.map(printRule))
  const isMissing = (rule: Rule) => !present.has(printRule(rule))
  // Who was there keeps the place: the first of a container's attachments that share a port is the one that is reached.
  const blocks = blocksOf(found, chain).filter((block) => block.owner !== "")
  const own = { owner, netns: "", rules: [mark, ...content] }
  const ordered = blocks.some((block) => block.owner === owner) ? blocks : [...blocks, own]
  const arranged = ordered.map((block) => (block.owner === owner ? own : block))
  const kept = arranged.filter((block) => block !== own)
  const wantedJumps = new Set(jumps.map(printRule))
  const staleJumps = jumpsTo(found, chain).filter(
    (jump) => !wantedJumps.has(printRule(jump)) && !kept.some((block) => isJumpFor(jump, block)),
  )
  return [
    ...shared.filter((one) => !found.chains.includes(one.chain)).map((one) => chains.create(one.chain)),
    ...shared.flatMap((one) => one.rules.filter(isMissing)).map(rules.append),
    ...takeOver,
    ...staleJumps.map(rules.remove),
    chains.reset(chain),
    ...arranged.flatMap((block) => block.rules).map(rules.append),
    ...entries.filter(isMissing).map((one) => (one.chain === "POSTROUTING" ? rules.prepend(one) : rules.append(one))),
    ...jumps.filter(isMissing).map(rules.append),
  ]
}

/** What containers who are gone, or who have had this container's address before, have in the way. */
function planTakeOver(wanted: IptablesRules, found: Content, isGone: (block: Block) => boolean): Removal {
  const ends = new Set(wanted.content.flatMap((rule) => endOf(rule) ?? []))
  const isTaken = (rule: Rule) => ends.has(endOf(rule) ?? "")
  // In the order in which packets come to them: an error names the one who is reached.
  const led = new Set(found.rules.flatMap((rule) => targetOf(rule) ?? []))
  const others = [...led].filter((name) => CONTAINER_CHAIN.test(name) && name !== wanted.chain)
  const removals = others.map((chain): Removal => {
    const leading = jumpsTo(found, chain)
    const inTheWay = blocksOf(found, chain).filter(({ rules }) => rules.some(isTaken))
    const going = inTheWay.filter((block) => {
      if (isFormerHolder(wanted, block, leading)) return true
      if (isSameContainers(wanted, block, leading)) return false
      if (!isGone(block)) throw takenBy(wanted, block, leading[0])
      return true
    })
    return going.length === 0 ? NOTHING : without(found, chain, going)
  })
  return merge(removals)
}

/** Whether a block is of another attachment of the same container: their rules are there at once, the first ones reached. */
function isSameContainers({ containerId }: IptablesRules, block: Block, jumps: readonly Rule[]): boolean {
  if (block.owner !== "") return isOfContainer(block.owner, containerId)
  return jumps.some((jump) => isJumpCommentOf(commentOf(jump) ?? "", containerId))
}

/** Where ports of these rules lead that other attachments of the container have too. */
export function findAhead(wanted: IptablesRules, found: Content): Uint8Array[] {
  const ends = new Set(wanted.content.flatMap((rule) => endOf(rule) ?? []))
  const others = found.chains.filter((name) => CONTAINER_CHAIN.test(name))
  return others.flatMap((chain) => {
    const leading = jumpsTo(found, chain)
    const blocks = blocksOf(found, chain).filter((block) => {
      return block.owner !== wanted.owner && leading.length > 0 && isSameContainers(wanted, block, leading)
    })
    const taken = blocks.flatMap(({ rules }) => rules).filter((rule) => ends.has(endOf(rule) ?? ""))
    return taken.flatMap((rule) => parseIp((translationOf(rule) ?? "").replace(/^\[?(.*?)\]?:\d+$/, "$1")) ?? [])
  })
}

/** Whether it has had this container's address before: a network gives an address to one container at a time. */
function isFormerHolder({ network, part }: IptablesRules, block: Block, jumps: readonly Rule[]): boolean {
  if (!leadsTo(block, part.address.ip)) return false
  if (block.owner !== "") return isOwnerOf(block.owner, network)
  return jumps.some((jump) => networkComments(network).some((beginning) => commentOf(jump)?.startsWith(beginning)))
}

/** What goes with an attachment: its rules in the container's chains; with the last of these the chains too. */
export function planRemove<R extends Rule>(found: Content<R>, owner: Owner): Removal<R> {
  const comment = ownerComment(owner)
  const comments = jumpComments(owner)
  const removals = found.chains.map((chain): Removal<R> => {
    const jumps = jumpsTo(found, chain)
    // Two containers' chains can have one name by accident; then what leads there says so.
    if (jumps.length > 0 && !jumps.some((jump) => comments.includes(commentOf(jump) ?? ""))) return NOTHING
    const isGone = (block: Block) => block.owner === comment || block.owner === ""
    return without(found, chain, blocksOf(found, chain).filter(isGone))
  })
  return merge(removals)
}

/** What goes of a network when only these attachments are valid: all of other containers, and others' blocks. */
export function planGc<R extends Rule>(found: Content<R>, network: string, validOwners: readonly Owner[]): Removal<R> {
  const valid = new Set(validOwners.map(ownerComment))
  const validContainers = new Set(validOwners.flatMap(jumpComments))
  const beginnings = networkComments(network)
  const isNetworks = (text: string) => beginnings.some((beginning) => text.startsWith(beginning))
  const removals = found.chains.map((chain): Removal<R> => {
    const blocks = blocksOf(found, chain)
    const comments = jumpsTo(found, chain).flatMap((jump) => commentOf(jump) ?? [])
    // Without either it may be a chain that somebody is making just now.
    if (!comments.some(isNetworks) && !blocks.some(({ owner }) => isOwnerOf(owner, network))) return NOTHING
    const isValid = comments.some((comment) => validContainers.has(comment))
    const isStale = ({ owner }: Block) => (owner === "" ? !isValid : isOwnerOf(owner, network) && !valid.has(owner))
    return without(found, chain, blocks.filter(isStale))
  })
  return merge(removals)
}

const NOTHING = { rules: [], chains: [] } as const

/** Blocks of a chain; the chain, and what leads to it, when there are no others. */
function without<R extends Rule>(found: Content<R>, chain: string, gone: readonly Block<R>[]): Removal<R> {
  const left = blocksOf(found, chain).length - gone.length
  if (left === 0) return { rules: jumpsTo(found, chain), chains: [chain] }
  return { rules: gone.flatMap(({ rules }) => rules), chains: [] }
}

function jumpsTo<R extends Rule>({ rules }: Content<R>, chain: string): R[] {
  return rules.filter((rule) => rule.chain !== chain && targetOf(rule) === chain)
}

function merge<R extends Rule>(removals: readonly Removal<R>[]): Removal<R> {
  return { rules: removals.flatMap(({ rules }) => rules), chains: removals.flatMap(({ chains }) => chains) }
}

function takenBy({ part, owner, content }: IptablesRules, block: Block, jump: Rule | undefined): CniError {
  const ends = new Map(content.map((rule) => [endOf(rule), rule]))
  const theirs = block.rules.find((rule) => endOf(rule) !== undefined && ends.has(endOf(rule)))
  const ours = theirs && ends.get(endOf(theirs))
  const [protocol = "", port = "", hostIp] = (theirs && endOf(theirs))?.split(" ") ?? []
  const end = `${hostIp ? `${hostIp.replace(/\/.*/, "")}:` : ""}${port}/${protocol}`
  const holder = block.owner || (jump && commentOf(jump)) || "nobody"
  const [from, to] = [ours && translationOf(ours), theirs && translationOf(theirs)]
  return new CniError(
    Code.Internal,
    `Cannot map host port ${end} to ${from ?? part.family} for ${owner}: it is mapped to ${to} for ${holder}`,
    { details: "the names are network/container/interface; DEL that attachment first, or choose another hostPort" },
  )
}
