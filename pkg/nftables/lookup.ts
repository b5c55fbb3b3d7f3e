import { decodeLatin1, encodeUtf8 } from "../engine/mod.ts"
import { isErrno } from "../libc/mod.ts"
import { concat, NLM_F_DUMP, netfilterHeader, readAttributes } from "../netlink/mod.ts"
import { elementListAttributes, rawElementListAttributes, ruleAttributes } from "./attributes.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import { readElement } from "./read.ts"
import type { Element, NamedSet, Table } from "./rule-set.ts"
import { familyNumber, NFGENMSG_SIZE, NFT_MSG_GETRULE, NFT_MSG_GETSETELEM } from "./uapi.ts"
import { commentUserdata } from "./userdata.ts"
import { joinParts } from "./values.ts"

/**
 * The element of a key, like `nft get element`: one question, however many elements there are. Undefined when there is no
 * such element, set or table. Throws `NetlinkError`.
 */
export function getElement(
  socket: Pick<Netfilter, "get">,
  set: NamedSet,
  key: readonly Uint8Array[],
): Element | undefined {
  const elements = [{ key: { value: joinParts(set.key, key) } }]
  const what = `find an element of ${set.table.family} ${set.table.name} ${set.name}`
  const request = { type: NFT_MSG_GETSETELEM, what, payload: listPayload(set, elements) }
  const found = orNothing(() => socket.get(request))
  const [element] = found ? (elementListAttributes.decode(found.payload.subarray(NFGENMSG_SIZE)).elements ?? []) : []
  return element && readElement(set, element)
}

/** The beginning of a set: how many elements were looked at, and how many of them have the comment. */
export interface Sample {
  count: number
  commented: number
}

/**
 * Looks at the first ten elements of a set or some more, without reading all others. The socket has a list to read out
 * from then on, so it is good for nothing else. Throws `NetlinkError`.
 */
export function sampleElements(socket: Pick<Netfilter, "get">, set: NamedSet, comment: string): Sample {
  const what = `list set ${set.table.family} ${set.table.name} ${set.name}`
  const request = { type: NFT_MSG_GETSETELEM, flags: NLM_F_DUMP, what, payload: listPayload(set, undefined) }
  const found = orNothing(() => socket.get(request))?.payload.subarray(NFGENMSG_SIZE)
  const list = found && rawElementListAttributes.decode(found).elements
  const elements = list ? readAttributes(list) : []
  const needle = decodeLatin1(commentUserdata(comment) ?? new Uint8Array(0))
  const commented = elements.filter(({ payload }) => decodeLatin1(payload).includes(needle))
  return { count: elements.length, commented: commented.length }
}

/** Whether for each of these comments there is a rule with it in the table, in whichever chain. Throws `NetlinkError`. */
export function hasRules(socket: Pick<Netfilter, "dump">, table: Table, comments: readonly string[]): boolean {
  const payload = concat([netfilterHeader(familyNumber[table.family]), ruleAttributes.encode({ table: table.name })])
  const name = `${table.name}\0`
  const needles = comments.map((comment) => decodeLatin1(encodeUtf8(`${comment}\0`)))
  const request = { type: NFT_MSG_GETRULE, what: `list table ${table.family} ${table.name}`, payload }
  const found = socket.dump(request, (answer) => {
    const rule = decodeLatin1(answer.payload) // taken apart no further: only comments matter
    const had = rule.includes(name, NFGENMSG_SIZE) ? needles.filter((needle) => rule.includes(needle)) : []
    return had.length > 0 ? had : undefined
  })
  const all = new Set(found.flat())
  return needles.every((needle) => all.has(needle))
}

function listPayload({ table, name }: NamedSet, elements: { key: { value: Uint8Array } }[] | undefined): Uint8Array {
  const attributes = elementListAttributes.encode({ table: table.name, set: name, elements })
  return concat([netfilterHeader(familyNumber[table.family]), attributes])
}

function orNothing<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (isErrno(error, "ENOENT")) return undefined
    throw error
  }
}
