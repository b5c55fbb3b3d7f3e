import { concat, type Infer, NetlinkError, netfilterHeader } from "../netlink/mod.ts"
import { elementAttributes, elementListAttributes, rawElementListAttributes, ruleAttributes } from "./attributes.ts"
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
  const payload = concat([header(chain.table), ruleAttributes.encode({ table: chain.table.name, chain: chain.name })])
  const what = `list chain ${chain.table.family} ${chain.table.name} ${chain.name}`
  const answers = orNothing(() => socket.dump({ type: NFT_MSG_GETRULE, what, payload })) ?? []
  return answers.flatMap((answer) => {
    if (needles && !needles.some((needle) => includes(answer.payload, needle))) return []
    const found = ruleAttributes.decode(answer.payload.subarray(NFGENMSG_SIZE))
    if (found.table !== chain.table.name || found.chain !== chain.name) return []
    const comment = readComment(found.userdata)
    const rule = { chain, handle: found.handle ?? 0n, expressions: found.expressions ?? [] }
    return [comment === undefined ? rule : { ...rule, comment }]
  })
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
  const answers = orNothing(() => socket.dump({ type: NFT_MSG_GETSETELEM, what, payload }))
  const all = answers?.flatMap(
    (answer) => rawElementListAttributes.decode(answer.payload.subarray(NFGENMSG_SIZE)).elements ?? [],
  )
  if (!all) return undefined
  const wanted = needles ? all.filter((raw) => needles.some((needle) => includes(raw, needle))) : all
  return { count: all.length, elements: wanted.map((raw) => readElement(set, elementAttributes.decode(raw))) }
}

function includes(raw: Uint8Array, needle: Uint8Array): boolean {
  return Buffer.from(raw.buffer, raw.byteOffset, raw.length).includes(needle)
}

/** An element as it was given. */
export function readElement(set: NamedSet, found: Infer<typeof elementAttributes>): Element {
  const element: Element = { key: splitParts(set.key, found.key?.value ?? new Uint8Array(0)) }
  if (found.keyEnd?.value) element.keyEnd = splitParts(set.key, found.keyEnd.value)
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
