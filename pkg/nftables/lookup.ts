import { isErrno } from "../libc/mod.ts"
import { concat, NLM_F_DUMP, netfilterHeader, type Request } from "../netlink/mod.ts"
import { elementListAttributes, ruleAttributes } from "./attributes.ts"
import type { Netfilter } from "./netfilter-socket.ts"
import { readElement } from "./read.ts"
import type { Element, NamedSet, Table } from "./rule-set.ts"
import { familyNumber, NFGENMSG_SIZE, NFT_MSG_GETRULE, NFT_MSG_GETSETELEM } from "./uapi.ts"
import { joinParts } from "./values.ts"

/**
 * The element of a key, like `nft get element`: one question, however many elements there are. In a set of intervals the
 * range that the key lies in. Undefined when there is no such element, set or table. Throws `NetlinkError`.
 */
export function getElement(
  socket: Pick<Netfilter, "get">,
  set: NamedSet,
  key: readonly Uint8Array[],
): Element | undefined {
  const elements = [{ key: { value: joinParts(set.key, key) } }]
  const what = `find an element of ${set.table.family} ${set.table.name} ${set.name}`
  return readFirst(socket, set, { type: NFT_MSG_GETSETELEM, what, payload: listPayload(set, elements) })?.[0]
}

/**
 * The first few elements of a set, without reading all of the others; undefined when there is no such set. The socket has
 * a list to read out from then on, so it is good for nothing else. Throws `NetlinkError`.
 */
export function sampleElements(socket: Pick<Netfilter, "get">, set: NamedSet): Element[] | undefined {
  const what = `list set ${set.table.family} ${set.table.name} ${set.name}`
  return readFirst(socket, set, {
    type: NFT_MSG_GETSETELEM,
    flags: NLM_F_DUMP,
    what,
    payload: listPayload(set, undefined),
  })
}

/** Whether for each of these comments there is a rule with it in the table, in whichever chain. Throws `NetlinkError`. */
export function hasRules(socket: Pick<Netfilter, "dump">, table: Table, comments: readonly string[]): boolean {
  const payload = concat([netfilterHeader(familyNumber[table.family]), ruleAttributes.encode({ table: table.name })])
  const answers = socket.dump({ type: NFT_MSG_GETRULE, what: `list table ${table.family} ${table.name}`, payload })
  const found = answers.map((answer) => Buffer.from(answer.payload)) // not decoded: only comments matter
  const name = `${table.name}\0`
  return comments.every((comment) =>
    found.some((rule) => rule.includes(`${comment}\0`) && rule.includes(name, NFGENMSG_SIZE)),
  )
}

function listPayload({ table, name }: NamedSet, elements: { key: { value: Uint8Array } }[] | undefined): Uint8Array {
  const attributes = elementListAttributes.encode({ table: table.name, set: name, elements })
  return concat([netfilterHeader(familyNumber[table.family]), attributes])
}

function readFirst(socket: Pick<Netfilter, "get">, set: NamedSet, request: Request): Element[] | undefined {
  try {
    const answer = socket.get(request)
    const { elements = [] } = elementListAttributes.decode(answer.payload.subarray(NFGENMSG_SIZE))
    return elements.map((element) => readElement(set, element))
  } catch (error) {
    if (isErrno(error, "ENOENT")) return undefined
    throw error
  }
}
