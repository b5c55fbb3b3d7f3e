import { countAttributes, type Infer, type Message, NLM_F_DUMP, readAttributes } from "../netlink/mod.ts"
import { elementAttributes, elementListAttributes, NFT_MSG_GETSETELEM, rawElementListAttributes } from "./attributes.ts"
import { joinParts, splitParts } from "./data-types.ts"
import { attributesOf, ifThere, including, type Netfilter, tableRequest } from "./netfilter.ts"
import type { Element, NamedSet } from "./rule-set.ts"
import { readVerdict } from "./statements.ts"
import { commentUserdata, readComment, readNote } from "./userdata.ts"

/** Some elements of a set. */
export interface FoundElements {
  elements: Element[]
  /** How many elements the set has in all. */
  count: number
}

/**
 * Returns the elements of a set, like `nft list set`, or of many only those that have one of `needles` in their bytes: a key or
 * a comment, found fast, and now and then something similar. Undefined when there is no such set.
 */
export function findElements(
  socket: Pick<Netfilter, "dump">,
  set: NamedSet,
  needles?: readonly Uint8Array[],
): FoundElements | undefined {
  const hasNeedle = including(needles)
  const read = (answer: Message): FoundElements => {
    const list = elementsIn(answer)
    // One answer has hundreds of elements.
    const found = hasNeedle(list) ? readAttributes(list).filter(({ payload }) => hasNeedle(payload)) : []
    const elements = found.map(({ payload }) => readElement(set, elementAttributes.decode(payload)))
    return { elements, count: countAttributes(list) }
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
 * Returns an element that `isSought`, with `needle` in its bytes: the first that is listed. Looks at the beginning of the list first,
 * and reads the rest only if it has to. Undefined when there is none. Throws `NetlinkError`.
 */
export function findElement(
  socket: Pick<Netfilter, "get" | "dump">,
  set: NamedSet,
  needle: Uint8Array,
  isSought: (element: Element) => boolean,
): Element | undefined {
  const firstOf = (list: Uint8Array) => firstIn(list, set, needle, isSought)
  const beginning = readBeginning(socket, set, (list) => ({
    found: firstOf(list),
    isWhole: isWholeList(countAttributes(list)),
  }))
  if (!beginning || beginning.found || beginning.isWhole) return beginning?.found
  let found: Element | undefined
  ifThere(() =>
    socket.dump(listRequest(set), (answer) => {
      found ??= firstOf(elementsIn(answer))
      return undefined
    }),
  )
  return found
}

function firstIn(
  list: Uint8Array,
  set: NamedSet,
  needle: Uint8Array,
  isSought: (element: Element) => boolean,
): Element | undefined {
  const hasNeedle = including([needle])
  for (const { payload } of hasNeedle(list) ? readAttributes(list) : []) {
    const element = hasNeedle(payload) ? readElement(set, elementAttributes.decode(payload)) : undefined
    if (element && isSought(element)) return element
  }
  return undefined
}

/** Returns the comments of a set's elements; none when there is no such set. */
export function listElementComments(socket: Pick<Netfilter, "dump">, set: Pick<NamedSet, "table" | "name">): string[] {
  const read = (answer: Message) =>
    readAttributes(elementsIn(answer)).flatMap(
      ({ payload }) => readComment(elementAttributes.decode(payload).userdata) ?? [],
    )
  return (ifThere(() => socket.dump(listRequest(set), read)) ?? []).flat()
}

/**
 * Returns the element of a key, like `nft get element`: one question, however many elements there are. Undefined when there is no
 * such element, set or table. Throws `NetlinkError`.
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
 * Returns the element for keys that have none of their own, `*` in `nft list set`, which the kernel gives for no key that is asked for
 * (since 5.13). Undefined when there is none. Throws `NetlinkError`.
 */
export function findCatchAll(socket: Pick<Netfilter, "dump">, set: NamedSet): Element | undefined {
  let found: Element | undefined
  ifThere(() =>
    socket.dump(listRequest(set), (answer) => {
      for (const { payload } of found === undefined ? readAttributes(elementsIn(answer)) : []) {
        const element = elementAttributes.decode(payload)
        if (((element.flags ?? 0) & CATCH_ALL) !== 0) found = readElement(set, element)
      }
      return undefined
    }),
  )
  return found
}

/** The beginning of a set: how many elements were looked at, and how many of them have the comment. */
export interface Sample {
  count: number
  commented: number
}

/** Looks at the first ten elements of a set or some more, without reading all others. Throws `NetlinkError`. */
export function sampleElements(socket: Pick<Netfilter, "get">, set: NamedSet, comment: string): Sample {
  const elements = readBeginning(socket, set, readAttributes) ?? []
  const hasNeedle = including([commentUserdata(comment) ?? new Uint8Array(0)])
  return { count: elements.length, commented: elements.filter(({ payload }) => hasNeedle(payload)).length }
}

/** Returns whether a beginning of so many elements is the whole list: at least ten of the longest fit into one answer. */
export function isWholeList(count: number): boolean {
  return count < 10
}

/** Returns what `read` makes of the elements, encoded, in a list's first answer; undefined when there is no such set. */
function readBeginning<T>(socket: Pick<Netfilter, "get">, set: NamedSet, read: (list: Uint8Array) => T): T | undefined {
  return ifThere(() => socket.get({ ...listRequest(set), flags: NLM_F_DUMP }, (answer) => read(elementsIn(answer))))
}

/** Returns the question for all elements of a set. */
function listRequest({ table, name }: Pick<NamedSet, "table" | "name">) {
  const what = `list set ${table.family} ${table.name} ${name}`
  const attributes = elementListAttributes.encode({ table: table.name, set: name })
  return tableRequest(table, NFT_MSG_GETSETELEM, what, attributes)
}

/** Returns the elements of an answer, encoded. */
function elementsIn(answer: Message): Uint8Array {
  return rawElementListAttributes.decode(attributesOf(answer)).elements ?? new Uint8Array(0)
}

/** Returns an element as it was given. */
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
