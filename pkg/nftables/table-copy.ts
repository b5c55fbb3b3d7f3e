import { decodeLatin1 } from "../engine/mod.ts"
import {
  attribute,
  concat,
  forEachAttribute,
  type Message,
  NLM_F_APPEND,
  NLM_F_CREATE,
  NLM_F_EXCL,
  netfilterHeader,
  type Request,
  text,
  typeAt,
  u32be,
} from "../netlink/mod.ts"
import {
  NFT_MSG_GETCHAIN,
  NFT_MSG_GETRULE,
  NFT_MSG_GETSET,
  NFT_MSG_GETSETELEM,
  NFT_MSG_GETTABLE,
  NFT_MSG_NEWCHAIN,
  NFT_MSG_NEWRULE,
  NFT_MSG_NEWSET,
  NFT_MSG_NEWSETELEM,
  NFT_MSG_NEWTABLE,
  rawElementListAttributes,
  setNameAttributes,
} from "./attributes.ts"
import { attributesOf, ifThere, type Netfilter } from "./netfilter.ts"
import { readComment } from "./userdata.ts"

/** What an object is made of. The kernel says more of it, such as handles and counts, and newer ones refuse to be told that. */
const MADE_OF = {
  table: new Set([1, 2, 6]), // NFTA_TABLE_NAME, _FLAGS, _USERDATA
  chain: new Set([1, 3, 4, 5, 7, 10, 12]), // NFTA_CHAIN_TABLE, _NAME, _HOOK, _POLICY, _TYPE, _FLAGS, _USERDATA
  // NFTA_SET_TABLE, _NAME, _FLAGS, _KEY_TYPE, _KEY_LEN, _DATA_TYPE, _DATA_LEN, _POLICY, _DESC, _TIMEOUT, _GC_INTERVAL, _USERDATA,
  // _OBJ_TYPE, _EXPR, _EXPRESSIONS
  set: new Set([1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 17, 18]),
  rule: new Set([1, 2, 4, 5, 7]), // NFTA_RULE_TABLE, _CHAIN, _EXPRESSIONS, _COMPAT, _USERDATA
} as const
/** `NFTA_SET_ELEM_KEY`, `_FLAGS`, `_USERDATA` */
const [KEY, FLAGS, USERDATA] = [1, 3, 6]
const NFTA_SET_ID = 10
/** `NFTA_LIST_ELEM`, nested */
export const LIST_ELEMENT = 1 | 0x8000
/** A list of elements is one attribute, whose length with its header is 16 bits. */
const LIST_BYTES = 60_000

/** A set's attributes, and its elements by their keys, as the kernel has sent them. */
interface SetCopy {
  readonly attributes: Uint8Array
  readonly elements: Map<string, Uint8Array>
}

/** A table as the kernel has sent it, ready to be sent back. */
export interface TableCopy {
  /** The number of its family. */
  readonly family: number
  readonly name: string
  readonly table: Uint8Array
  readonly chains: readonly Uint8Array[]
  readonly sets: ReadonlyMap<string, SetCopy>
  readonly rules: readonly Uint8Array[]
}

/** Copies the present state of a table. `undefined` when it does not exist. Throws `NetlinkError`. */
export function readCopy(socket: Pick<Netfilter, "get" | "dump">, family: number, name: string): TableCopy | undefined {
  const ask = (type: number, attributes: Uint8Array, what: string): Request => {
    return { type, what: `${what} of table ${name}`, payload: concat([netfilterHeader(family), attributes]) }
  }
  const named = attribute(1, text.encode(name))
  const isOf = (answer: Message) => tableOfMessage(answer) === name && answer.payload[0] === family
  const listOf = (type: number, what: string, parts: ReadonlySet<number>) =>
    socket.dump(ask(type, named, what), (answer) => (isOf(answer) ? only(parts, attributesOf(answer)) : undefined))
  return ifThere(() => {
    const table = socket.get(ask(NFT_MSG_GETTABLE, named, "properties"), (answer) =>
      only(MADE_OF.table, attributesOf(answer)),
    )
    const sets = listOf(NFT_MSG_GETSET, "sets", MADE_OF.set).map((attributes) => {
      const { name: set = "" } = setNameAttributes.decode(attributes)
      const elements = new Map<string, Uint8Array>()
      const both = rawElementListAttributes.encode({ table: name, set })
      socket.dump(ask(NFT_MSG_GETSETELEM, both, `elements of set ${set}`), (answer) => {
        keep(elements, rawElementListAttributes.decode(attributesOf(answer)).elements ?? new Uint8Array())
        return undefined
      })
      return [set, { attributes, elements }] as const
    })
    const chains = listOf(NFT_MSG_GETCHAIN, "chains", MADE_OF.chain)
    const rules = listOf(NFT_MSG_GETRULE, "rules", MADE_OF.rule)
    return { family, name, table, chains, sets: new Map(sets), rules }
  })
}

/** The comments of a table's elements. */
export function* commentsIn({ sets }: TableCopy): Iterable<string> {
  for (const { elements } of sets.values())
    for (const element of elements.values()) {
      const comment = commentOf(element)
      if (comment !== undefined) yield comment
    }
}

/** The requests that create a table again from its copy, without elements whose comment is `isLeft`. The kernel refuses them (EEXIST) where it exists. */
export function requestsFor(
  { family, name, table, chains, sets, rules }: TableCopy,
  isLeft: (comment: string) => boolean,
): Request[] {
  const make = (type: number, attributes: Uint8Array, flags = NLM_F_CREATE): Request => {
    return { type, flags, what: `add table ${name} again`, payload: concat([netfilterHeader(family), attributes]) }
  }
  let id = 0
  return [
    make(NFT_MSG_NEWTABLE, table, NLM_F_CREATE | NLM_F_EXCL), // rules would come twice into one that is there
    ...chains.map((chain) => make(NFT_MSG_NEWCHAIN, chain)),
    ...[...sets.values()].map(({ attributes }) => {
      return make(NFT_MSG_NEWSET, concat([attributes, attribute(NFTA_SET_ID, u32be.encode(++id))]))
    }),
    ...[...sets].flatMap(([set, { elements }]) =>
      listsOf([...elements.values()].filter((element) => !isLeft(commentOf(element) ?? ""))).map((list) =>
        make(NFT_MSG_NEWSETELEM, rawElementListAttributes.encode({ table: name, set, elements: list })),
      ),
    ),
    ...rules.map((rule) => make(NFT_MSG_NEWRULE, rule, NLM_F_CREATE | NLM_F_APPEND)),
  ]
}

/** Elements in as few lists as they fit into. */
function listsOf(elements: readonly Uint8Array[]): Uint8Array[] {
  const lists: Uint8Array[][] = []
  let size = LIST_BYTES
  for (const element of elements) {
    const one = attribute(LIST_ELEMENT, element)
    size += one.length
    if (size > LIST_BYTES) {
      lists.push([])
      size = one.length
    }
    lists.at(-1)?.push(one)
  }
  return lists.map(concat)
}

/** Adds the elements of an encoded list, by key and, in sets of ranges, whether it is where one ends. */
export function keep(elements: Map<string, Uint8Array>, list: Uint8Array): void {
  forEachAttribute(list, (start, end) => {
    const element = list.slice(start, end)
    const part = (type: number) => decodeLatin1(find(element, type) ?? new Uint8Array())
    elements.set(`${part(KEY)}/${part(FLAGS)}`, element)
    return false
  })
}

export function commentOf(element: Uint8Array): string | undefined {
  return readComment(find(element, USERDATA))
}

/** The payload of the first attribute of a type. */
function find(attributes: Uint8Array, type: number): Uint8Array | undefined {
  let found: Uint8Array | undefined
  forEachAttribute(attributes, (start, end) => {
    if (typeAt(attributes, start - 4) !== type) return false
    found = attributes.subarray(start, end)
    return true
  })
  return found
}

/** The attributes of these types, as they are. */
function only(types: ReadonlySet<number>, attributes: Uint8Array): Uint8Array {
  const kept: Uint8Array[] = []
  forEachAttribute(attributes, (start, end) => {
    const whole = attributes.slice(start - 4, Math.min(attributes.length, (end + 3) & ~3))
    if (types.has(typeAt(attributes, start - 4))) kept.push(whole)
    return false
  })
  return concat(kept)
}

/** The name of a message's table: the first attribute of all of them. */
export function tableOfMessage(message: Message): string {
  const name = find(attributesOf(message), 1)
  return name ? text.decode(name) : ""
}
