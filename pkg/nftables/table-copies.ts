import { decodeLatin1 } from "../engine/mod.ts"
import { isErrno } from "../libc/mod.ts"
import {
  attribute,
  concat,
  forEachAttribute,
  type Message,
  NLM_F_ACK,
  NLM_F_APPEND,
  NLM_F_CREATE,
  netfilterHeader,
  type Request,
  text,
  typeAt,
  u32be,
} from "../netlink/mod.ts"
import {
  commentedRuleAttributes,
  NFT_MSG_DELCHAIN,
  NFT_MSG_DELRULE,
  NFT_MSG_DELSET,
  NFT_MSG_DELSETELEM,
  NFT_MSG_DELTABLE,
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
  tableAttributes,
} from "./attributes.ts"
import { attributesOf, ifThere, type Netfilter } from "./netfilter.ts"
import { type Generation, getGeneration, sendBatch } from "./transaction.ts"
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
const LIST_ELEMENT = 1 | 0x8000
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

/** What a transaction has taken away of the tables. */
export interface Removal {
  /** Tables that are gone, as they were before. */
  readonly tables: readonly TableCopy[]
  /** The comments of elements and rules that are gone from tables that are still there. */
  readonly comments: readonly string[]
  /** Whether chains, sets, or rules and elements without a comment are gone from these. */
  readonly isBroken: boolean
}

/** Copies of some tables, kept up to date by the kernel's notifications, by which a table that was deleted comes back in one transaction. */
export class TableCopies {
  readonly #socket: Pick<Netfilter, "fd" | "get" | "dump" | "transact">
  readonly #isWanted: (name: string) => boolean
  readonly #tables = new Map<string, TableCopy>()

  constructor(socket: Pick<Netfilter, "fd" | "get" | "dump" | "transact">, isWanted: (name: string) => boolean) {
    this.#socket = socket
    this.#isWanted = isWanted
  }

  /** Reads all tables anew. Returns those that were known and are gone. Throws `NetlinkError`. */
  load(): TableCopy[] {
    const request = { type: NFT_MSG_GETTABLE, what: "list tables", payload: netfilterHeader(0) }
    const found = this.#socket.dump(request, (answer) => {
      const name = tableOfMessage(answer)
      return this.#isWanted(name) ? { family: answer.payload[0] ?? 0, name } : undefined
    })
    const there = new Set(found.map(keyOf))
    const gone = [...this.#tables.values()].filter((table) => !there.has(keyOf(table)))
    this.#tables.clear()
    for (const { family, name } of found) this.#read(family, name)
    return gone
  }

  /** Follows one transaction, by all its notifications. Throws `NetlinkError`. */
  follow(messages: readonly Message[]): Removal {
    const wanted = messages.filter((message) => this.#isWanted(tableOfMessage(message)))
    const [deleted, created] = [new Set<string>(), new Set<string>()]
    for (const message of wanted) {
      const key = keyOf({ family: message.payload[0] ?? 0, name: tableOfMessage(message) })
      if (message.type === NFT_MSG_NEWTABLE) created.add(key)
      if (message.type !== NFT_MSG_DELTABLE) continue
      deleted.add(key)
      created.delete(key) // what counts is the last of both
    }
    const tables: TableCopy[] = []
    for (const key of deleted) {
      const copy = this.#tables.get(key)
      if (copy && !created.has(key)) tables.push(copy)
      this.#tables.delete(key)
    }
    const comments: string[] = []
    let isBroken = [...deleted].some((key) => created.has(key))
    const changed = new Map<string, Message>()
    for (const message of wanted) {
      const key = keyOf({ family: message.payload[0] ?? 0, name: tableOfMessage(message) })
      if (deleted.has(key) && !created.has(key)) continue
      const removed = this.#followOne(message, this.#tables.get(key), () => changed.set(key, message))
      for (const comment of removed) {
        if (comment === undefined) isBroken = true
        else comments.push(comment)
      }
    }
    for (const message of changed.values()) this.#read(message.payload[0] ?? 0, tableOfMessage(message))
    return { tables, comments, isBroken }
  }

  /** Returns the comments of what is gone; undefined for what has none. */
  #followOne(message: Message, copy: TableCopy | undefined, reread: () => void): (string | undefined)[] {
    if (message.type === NFT_MSG_NEWSETELEM || message.type === NFT_MSG_DELSETELEM) {
      const { set = "", elements = new Uint8Array() } = rawElementListAttributes.decode(attributesOf(message))
      const known = copy?.sets.get(set)
      if (!known) reread()
      if (known && message.type === NFT_MSG_NEWSETELEM) keep(known.elements, elements)
      if (message.type === NFT_MSG_NEWSETELEM) return []
      const gone = new Map<string, Uint8Array>()
      keep(gone, elements)
      for (const key of gone.keys()) known?.elements.delete(key)
      return [...gone.values()].map(commentOf)
    }
    reread()
    const isDormant =
      message.type === NFT_MSG_NEWTABLE && ((tableAttributes.decode(attributesOf(message)).flags ?? 0) & 1) !== 0
    if (isDormant) return [undefined]
    if (message.type === NFT_MSG_DELRULE)
      return [readComment(commentedRuleAttributes.decode(attributesOf(message)).userdata)]
    return message.type === NFT_MSG_DELCHAIN || message.type === NFT_MSG_DELSET ? [undefined] : []
  }

  /** Takes a table as it is now. One that is gone stays as it was: that it was deleted is still to be heard of. */
  #read(family: number, name: string): void {
    const ask = (type: number, attributes: Uint8Array, what: string): Request => {
      return { type, what: `${what} of table ${name}`, payload: concat([netfilterHeader(family), attributes]) }
    }
    const named = attribute(1, text.encode(name))
    const isOf = (answer: Message) => tableOfMessage(answer) === name && answer.payload[0] === family
    const listOf = (type: number, what: string, parts: ReadonlySet<number>) =>
      this.#socket.dump(ask(type, named, what), (answer) =>
        isOf(answer) ? only(parts, attributesOf(answer)) : undefined,
      )
    ifThere(() => {
      const table = this.#socket.get(ask(NFT_MSG_GETTABLE, named, "properties"), (answer) =>
        only(MADE_OF.table, attributesOf(answer)),
      )
      const sets = listOf(NFT_MSG_GETSET, "sets", MADE_OF.set).map((attributes) => {
        const { name: set = "" } = setNameAttributes.decode(attributes)
        const elements = new Map<string, Uint8Array>()
        const both = rawElementListAttributes.encode({ table: name, set })
        this.#socket.dump(ask(NFT_MSG_GETSETELEM, both, `elements of set ${set}`), (answer) => {
          keep(elements, rawElementListAttributes.decode(attributesOf(answer)).elements ?? new Uint8Array())
          return undefined
        })
        return [set, { attributes, elements }] as const
      })
      const chains = listOf(NFT_MSG_GETCHAIN, "chains", MADE_OF.chain)
      const rules = listOf(NFT_MSG_GETRULE, "rules", MADE_OF.rule)
      this.#tables.set(keyOf({ family, name }), { family, name, table, chains, sets: new Map(sets), rules })
    })
  }

  /**
   * Makes tables again as they were, but for elements whose comment is `isLeft`, in one transaction, on the very rule set of `generation`.
   * Returns false when that has changed since, or something cannot be made so. Throws `NetlinkError` for a shortage.
   */
  restore(tables: readonly TableCopy[], isLeft: (comment: string) => boolean, generation: Generation): boolean {
    const changes = tables.flatMap((copy) => requestsFor(copy, isLeft))
    const last = changes.at(-1)
    if (!last) return true
    last.flags = (last.flags ?? 0) | NLM_F_ACK
    try {
      sendBatch(this.#socket, changes, generation)
    } catch (error) {
      if (isErrno(error, "ERESTART", "EEXIST", "ENOENT", "EINVAL", "EOPNOTSUPP", "EBUSY")) return false
      throw error
    }
    for (const copy of tables) this.#tables.set(keyOf(copy), copy)
    return true
  }

  /** Removes all elements that have one of these comments. Throws `NetlinkError`. */
  removeElements(isRemoved: (comment: string) => boolean): void {
    for (const { family, name, sets } of this.#tables.values())
      for (const [set, { elements }] of sets)
        for (const element of elements.values()) {
          const comment = commentOf(element)
          if (comment === undefined || !isRemoved(comment)) continue
          const list = { table: name, set, elements: attribute(LIST_ELEMENT, element) }
          const payload = concat([netfilterHeader(family), rawElementListAttributes.encode(list)])
          const what = `delete element of ${name} ${set}`
          ifThere(() => sendBatch(this.#socket, [{ type: NFT_MSG_DELSETELEM, flags: NLM_F_ACK, payload, what }]))
        }
  }

  /** The generation of the rule set now. Throws `NetlinkError`. */
  generation(): Generation {
    return getGeneration(this.#socket)
  }

  /** Whether a table of a copy is there. Throws `NetlinkError`. */
  isThere({ family, name }: TableCopy): boolean {
    const payload = concat([netfilterHeader(family), attribute(1, text.encode(name))])
    return (
      ifThere(() => this.#socket.get({ type: NFT_MSG_GETTABLE, what: `find table ${name}`, payload }, () => true)) ??
      false
    )
  }
}

/** The comments of a table's elements. */
export function* commentsIn({ sets }: TableCopy): Iterable<string> {
  for (const { elements } of sets.values())
    for (const element of elements.values()) {
      const comment = commentOf(element)
      if (comment !== undefined) yield comment
    }
}

function requestsFor(
  { family, name, table, chains, sets, rules }: TableCopy,
  isLeft: (comment: string) => boolean,
): Request[] {
  const make = (type: number, attributes: Uint8Array, flags = NLM_F_CREATE): Request => {
    return { type, flags, what: `add table ${name} again`, payload: concat([netfilterHeader(family), attributes]) }
  }
  let id = 0
  return [
    make(NFT_MSG_NEWTABLE, table, 0),
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
function keep(elements: Map<string, Uint8Array>, list: Uint8Array): void {
  forEachAttribute(list, (start, end) => {
    const element = list.slice(start, end)
    const part = (type: number) => decodeLatin1(find(element, type) ?? new Uint8Array())
    elements.set(`${part(KEY)}/${part(FLAGS)}`, element)
    return false
  })
}

function commentOf(element: Uint8Array): string | undefined {
  return readComment(find(element, USERDATA))
}

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

function keyOf({ family, name }: { family: number; name: string }): string {
  return `${family} ${name}`
}
