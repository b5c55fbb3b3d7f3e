import { decodeLatin1 } from "../engine/mod.ts"
import {
  concat,
  countAttributes,
  type Infer,
  type Message,
  NetlinkError,
  netfilterHeader,
  readAttributes,
} from "../netlink/mod.ts"
import {
  commentedRuleAttributes,
  elementAttributes,
  elementListAttributes,
  rawElementListAttributes,
  ruleAttributes,
} from "./attributes.ts"
import type { Expression, UnknownExpression } from "./expressions.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import type { Chain, Element, NamedSet, RuleHandle, Table } from "./rule-set.ts"
import { familyNumber, NFGENMSG_SIZE, NFT_MSG_GETRULE, NFT_MSG_GETSETELEM } from "./uapi.ts"
import { readComment, readNote } from "./userdata.ts"
import { readVerdict, splitParts } from "./values.ts"

/** A rule as the kernel has it. */
export interface FoundRule extends RuleHandle {
  expressions: (Expression | UnknownExpression)[]
  comment?: string
}

/**
 * The rules of a chain in their order, like `nft list chain`, or of many only those that have one of `needles` in their
 * bytes, such as the name of a chain that they jump to. None when there is no such chain.
 */
export function listRules(socket: Pick<Netfilter, "dump">, chain: Chain, needles?: readonly Uint8Array[]): FoundRule[] {
  const isWanted = including(needles)
  return dumpRules(socket, chain, ({ payload }): FoundRule | undefined => {
    if (!isWanted(payload)) return undefined
    const found = ruleAttributes.decode(payload.subarray(NFGENMSG_SIZE))
    if (found.table !== chain.table.name || found.chain !== chain.name) return undefined
    const comment = readComment(found.userdata)
    const rule = { chain, handle: found.handle ?? 0n, expressions: found.expressions ?? [] }
    return comment === undefined ? rule : { ...rule, comment }
  })
}

/** The comments of a chain's rules in their order, undefined for a rule without. None when there is no such chain. */
export function listComments(socket: Pick<Netfilter, "dump">, chain: Chain): (string | undefined)[] {
  const rules = dumpRules(socket, chain, ({ payload }) => {
    const found = commentedRuleAttributes.decode(payload.subarray(NFGENMSG_SIZE))
    const isOfChain = found.table === chain.table.name && found.chain === chain.name
    return isOfChain ? { comment: readComment(found.userdata) } : undefined
  })
  return rules.map(({ comment }) => comment)
}

function dumpRules<T>(
  socket: Pick<Netfilter, "dump">,
  { table, name }: Chain,
  pick: (answer: Message) => T | undefined,
): T[] {
  const payload = concat([header(table), ruleAttributes.encode({ table: table.name, chain: name })])
  const what = `list chain ${table.family} ${table.name} ${name}`
  return orNothing(() => socket.dump({ type: NFT_MSG_GETRULE, what, payload }, pick)) ?? []
}

/** Some elements of a set. */
export interface FoundElements {
  elements: Element[]
  /** How many elements the set has in all. */
  count: number
}

/**
 * The elements of a set, like `nft list set`, or of many only those that have one of `needles` in their bytes: a key or
 * a comment, found fast, and now and then something similar. Undefined when there is no such set.
 */
export function findElements(
  socket: Pick<Netfilter, "dump">,
  set: NamedSet,
  needles?: readonly Uint8Array[],
): FoundElements | undefined {
  const payload = concat([header(set.table), elementListAttributes.encode({ table: set.table.name, set: set.name })])
  const what = `list set ${set.table.family} ${set.table.name} ${set.name}`
  const isWanted = including(needles)
  const pick = ({ payload }: Message): FoundElements | undefined => {
    const list = rawElementListAttributes.decode(payload.subarray(NFGENMSG_SIZE)).elements
    if (!list) return undefined
    const found: FoundElements = { elements: [], count: countAttributes(list) }
    if (!isWanted(list)) return found // one answer has hundreds of elements
    for (const { payload } of readAttributes(list)) {
      if (isWanted(payload)) found.elements.push(readElement(set, elementAttributes.decode(payload)))
    }
    return found
  }
  const answers = orNothing(() => socket.dump({ type: NFT_MSG_GETSETELEM, what, payload }, pick))
  if (!answers) return undefined
  const whole: FoundElements = { elements: [], count: 0 }
  for (const { elements, count } of answers) {
    for (const element of elements) whole.elements.push(element)
    whole.count += count
  }
  return whole
}

/** Whether bytes have one of `needles` in them; when none are given, always. */
function including(needles: readonly Uint8Array[] | undefined): (raw: Uint8Array) => boolean {
  if (!needles) return () => true
  const texts: string[] = []
  for (const needle of needles) texts.push(decodeLatin1(needle))
  return (raw) => {
    const bytes = decodeLatin1(raw)
    for (const text of texts) if (bytes.includes(text)) return true
    return false
  }
}

/** An element as it was given. */
export function readElement(set: NamedSet, found: Infer<typeof elementAttributes>): Element {
  const element: Element = { key: splitParts(set.key, found.key?.value ?? new Uint8Array(0)) }
  if (found.data?.verdict) element.value = readVerdict(found.data.verdict)
  else if (found.data?.value && set.value && set.value !== "verdict") {
    element.value = splitParts(set.value, found.data.value)
  }
  const comment = readComment(found.userdata)
  if (comment !== undefined) element.comment = comment
  const note = readNote(found.userdata)
  if (note !== undefined) element.note = note
  return element
}

function header(table: Table): Uint8Array {
  return netfilterHeader(familyNumber[table.family])
}

function orNothing<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === "ENOENT") return undefined
    throw error
  }
}
