import { isErrno } from "../libc/mod.ts"
import { attribute, concat, type Message, NLM_F_ACK, netfilterHeader, text } from "../netlink/mod.ts"
import {
  commentedRuleAttributes,
  NFT_MSG_DELCHAIN,
  NFT_MSG_DELRULE,
  NFT_MSG_DELSET,
  NFT_MSG_DELSETELEM,
  NFT_MSG_DELTABLE,
  NFT_MSG_GETTABLE,
  NFT_MSG_NEWSETELEM,
  NFT_MSG_NEWTABLE,
  rawElementListAttributes,
  tableAttributes,
} from "./attributes.ts"
import { attributesOf, ifThere, type Netfilter } from "./netfilter.ts"
import { commentOf, keep, LIST_ELEMENT, readCopy, requestsFor, type TableCopy, tableOfMessage } from "./table-copy.ts"
import { type Generation, getGeneration, sendBatch } from "./transaction.ts"
import { readComment } from "./userdata.ts"

/** What a transaction has taken away of the tables. */
export interface Removal {
  /** Copies of the deleted tables. */
  readonly tables: readonly TableCopy[]
  /** The comments of elements and rules that were deleted from existing tables. */
  readonly comments: readonly string[]
  /** Whether chains, sets, or rules and elements without a comment were deleted from these tables. */
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

  /** Reads all tables again. Returns the copies of those that were deleted. Throws `NetlinkError`. */
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

  /** Returns the comments of deleted objects; `undefined` for an object without a comment. */
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

  /**
   * Copies the present state of a table. The copy of a deleted table is kept until the notification of its deletion.
   */
  #read(family: number, name: string): void {
    const copy = readCopy(this.#socket, family, name)
    if (copy) this.#tables.set(keyOf(copy), copy)
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

function keyOf({ family, name }: { family: number; name: string }): string {
  return `${family} ${name}`
}
