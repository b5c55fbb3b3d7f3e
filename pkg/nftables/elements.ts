import { decodeLatin1 } from "../engine/mod.ts"
import {
  align,
  attrs,
  bytes,
  forEachAttribute,
  HEADER,
  type Infer,
  type Message,
  NLM_F_DUMP,
  typeAt,
} from "../netlink/mod.ts"
import { elementAttributes, elementListAttributes, NFT_MSG_GETSETELEM, rawElementListAttributes } from "./attributes.ts"
import { joinParts, keyLength as lengthOf, splitParts } from "./data-types.ts"
import { attributesOf, ifThere, type Netfilter, placeOf, tableRequest } from "./netfilter.ts"
import type { Element, NamedSet } from "./rule-set.ts"
import { readVerdict } from "./statements.ts"
import { COMMENT, commentUserdata, readComment, readNote } from "./userdata.ts"

/** The elements that `findElements` has found in a set. */
export interface FoundElements {
  elements: Element[]
  /** The number of all elements of the set. */
  count: number
}

/**
 * Returns the elements of a set, like `nft list set`. With `needles`, keys or comments, returns only elements whose
 * bytes contain one of these; rarely, another element contains the same bytes by chance. Returns undefined if the set
 * does not exist.
 */
export function findElements(
  socket: Pick<Netfilter, "dump">,
  set: NamedSet,
  needles?: readonly Uint8Array[],
): FoundElements | undefined {
  const read = (answer: Message): FoundElements => {
    const elements: Element[] = []
    const count = search(elementsIn(answer), needles, (payload) => {
      elements.push(readElement(set, elementAttributes.decode(payload)))
    })
    return { elements, count }
  }
  const answers = ifThere(() => socket.dump(listRequest(set), read))
  return (
    answers && {
      elements: answers.flatMap(({ elements }) => elements),
      count: answers.reduce((sum, { count }) => sum + count, 0),
    }
  )
}

/**
 * Returns the first listed element whose bytes contain `needle` and for which `isSought` is true. Reads the beginning
 * of the list first, and the rest only if necessary. Returns `undefined` if no element matches. Throws `NetlinkError`.
 */
export function findElement(
  socket: Pick<Netfilter, "get" | "dump">,
  set: NamedSet,
  needle: Uint8Array,
  isSought: (element: Element) => boolean,
): Element | undefined {
  let found: Element | undefined
  const lookIn = (list: Uint8Array) =>
    search(list, [needle], (payload) => {
      const element = readElement(set, elementAttributes.decode(payload))
      if (isSought(element)) found = element
      return found !== undefined
    })
  const count = readBeginning(socket, set, lookIn) ?? 0
  if (found || isWholeList(count)) return found
  ifThere(() =>
    socket.dump(listRequest(set), (answer) => {
      if (!found) lookIn(elementsIn(answer))
      return undefined
    }),
  )
  return found
}

/**
 * Calls `visit` for each element of an encoded list whose bytes contain one of `needles`, or without needles for each
 * element, until `visit` returns true. Returns the number of elements up to there.
 */
function search(
  list: Uint8Array,
  needles: readonly Uint8Array[] | undefined,
  visit: (payload: Uint8Array) => unknown,
): number {
  let next = needles ? placeOf(needles, list) : 0
  return forEachAttribute(list, (start, end) => {
    if (next >= end) return false
    if (needles) next = placeOf(needles, list, end)
    return visit(list.slice(start, end)) === true // a copy: a kept element must not keep the whole answer in memory
  })
}

/** `NFTA_SET_ELEM_USERDATA` */
const USERDATA = elementAttributes.fields.userdata[0]

/**
 * Returns the elements of a set in the form of `elementText`, in a tenth of the time of `findElements`. Leaves out
 * elements without a comment, and elements with attributes other than a key, a value and user data. Throws
 * `NetlinkError`.
 */
export function listElementTexts(socket: Pick<Netfilter, "dump">, set: NamedSet): Set<string> {
  const [keyLength, valueLength] = [lengthOf(set.key), set.value ? lengthOf(set.value) : 0]
  const valueAt = 4 * HEADER + align(keyLength)
  const userdataAt = set.value ? valueAt + align(valueLength) : valueAt - 2 * HEADER
  const texts = new Set<string>()
  const read = (answer: Message) => {
    const list = elementsIn(answer)
    forEachAttribute(list, (start, end) => {
      const at = start + userdataAt
      const comment = at + HEADER + 2
      const commentEnd = comment + (list[comment - 1] ?? 0)
      if (commentEnd > end || typeAt(list, at) !== USERDATA || list[comment - 2] !== COMMENT) return false
      const part = (from: number, to: number) => decodeLatin1(list.subarray(from, to))
      const key = part(start + 2 * HEADER, start + 2 * HEADER + keyLength)
      const value = part(start + valueAt, start + valueAt + valueLength)
      texts.add(key + value + part(comment, commentEnd - 1)) // without the NUL
      return false
    })
    return undefined
  }
  ifThere(() => socket.dump(listRequest(set), read))
  return texts
}

/** Returns the key, the value and the comment of an element of this set, joined to one text. */
export function elementText(set: NamedSet, { key, value, comment = "" }: Element): string {
  const text = decodeLatin1(joinParts(set.key, key))
  return (set.value ? text + decodeLatin1(joinParts(set.value, value ?? [])) : text) + comment
}

/** The attributes of an element except its key and value. */
const elementUserdata = attrs({ userdata: [USERDATA, bytes] }, { keepsUnknown: false })

/** Returns the comments of a set's elements; an empty list if the set does not exist. */
export function listElementComments(socket: Pick<Netfilter, "dump">, set: Pick<NamedSet, "table" | "name">): string[] {
  const read = (answer: Message) => {
    const comments: string[] = []
    const list = elementsIn(answer)
    forEachAttribute(list, (start, end) => {
      const comment = readComment(elementUserdata.read(list, start, end).userdata)
      if (comment !== undefined) comments.push(comment)
      return false
    })
    return comments
  }
  return (ifThere(() => socket.dump(listRequest(set), read)) ?? []).flat()
}

/**
 * Returns the element with this key, like `nft get element`. This takes one request, however many elements the set has.
 * Returns undefined if the element, set or table does not exist. Throws `NetlinkError`.
 */
export function getElement(
  socket: Pick<Netfilter, "get">,
  set: NamedSet,
  key: readonly Uint8Array[],
): Element | undefined {
  const { table, name } = set
  const elements = [{ key: { value: joinParts(set.key, key) } }]
  const attributes = elementListAttributes.encode({ table: table.name, set: name, elements })
  const what = `find an element of ${table.family} ${table.name} ${name}`
  const read = (answer: Message) => {
    const [element] = elementListAttributes.decode(attributesOf(answer)).elements ?? []
    return element && readElement(set, element)
  }
  return ifThere(() => socket.get(tableRequest(table, NFT_MSG_GETSETELEM, what, attributes), read))
}

/** `NFT_SET_ELEM_CATCHALL`, <linux/netfilter/nf_tables.h> */
const CATCH_ALL = 2

/**
 * Returns the catch-all element of a set (since Linux 5.13), which `nft list set` prints as `*`. The kernel returns it
 * only in a list, never for a key. Returns `undefined` if the set has no catch-all element. Throws `NetlinkError`.
 */
export function findCatchAll(socket: Pick<Netfilter, "dump">, set: NamedSet): Element | undefined {
  let found: Element | undefined
  ifThere(() =>
    socket.dump(listRequest(set), (answer) => {
      search(elementsIn(answer), undefined, (payload) => {
        const element = elementAttributes.decode(payload)
        if (((element.flags ?? 0) & CATCH_ALL) !== 0) found = readElement(set, element)
        return found !== undefined
      })
      return undefined
    }),
  )
  return found
}

/** The counts of elements at the beginning of a set. */
export interface Sample {
  /** The number of elements counted: all elements, or those with the comment and at least ten others. */
  count: number
  /** The number of counted elements with the comment. */
  commented: number
}

/** Counts elements at the beginning of a set, without reading the whole set. Throws `NetlinkError`. */
export function sampleElements(socket: Pick<Netfilter, "get">, set: NamedSet, comment: string): Sample {
  const needles = [commentUserdata(comment) ?? new Uint8Array(0)]
  const read = (list: Uint8Array): Sample => {
    let [count, commented] = [0, 0]
    for (let at = placeOf(needles, list); at < list.length; at = placeOf(needles, list, at + 1)) commented++
    forEachAttribute(list, () => ++count === commented + 10)
    return { count, commented }
  }
  return readBeginning(socket, set, read) ?? { count: 0, commented: 0 }
}

/** Reports whether a list is complete if its first answer has `count` elements. An answer has room for at least ten. */
export function isWholeList(count: number): boolean {
  return count < 10
}

/** Returns the result of `read` for a list's first answer; undefined if the set does not exist. */
function readBeginning<T>(socket: Pick<Netfilter, "get">, set: NamedSet, read: (list: Uint8Array) => T): T | undefined {
  return ifThere(() => socket.get({ ...listRequest(set), flags: NLM_F_DUMP }, (answer) => read(elementsIn(answer))))
}

function listRequest({ table, name }: Pick<NamedSet, "table" | "name">) {
  const what = `list set ${table.family} ${table.name} ${name}`
  const attributes = elementListAttributes.encode({ table: table.name, set: name })
  return tableRequest(table, NFT_MSG_GETSETELEM, what, attributes)
}

function elementsIn(answer: Message): Uint8Array {
  return rawElementListAttributes.decode(attributesOf(answer)).elements ?? new Uint8Array(0)
}

/** Decodes an element to the value with which it was added. */
function readElement(set: NamedSet, { key, data, userdata }: Infer<typeof elementAttributes>): Element {
  const element: Element = { key: splitParts(set.key, key?.value ?? new Uint8Array(0)) }
  if (data?.value && set.value) element.value = splitParts(set.value, data.value)
  if (data && set.verdicts) element.verdict = readVerdict(data)
  const comment = readComment(userdata)
  if (comment !== undefined) element.comment = comment
  const note = readNote(userdata)
  if (note !== undefined) element.note = note
  return element
}
