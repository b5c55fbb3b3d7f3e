import { encodeUtf8, findBytes } from "../../pkg/engine/mod.ts"
import { readDirectory, unlessErrno } from "../../pkg/libc/mod.ts"
import type { Message } from "../../pkg/netlink/mod.ts"
import {
  commentsIn,
  type Generation,
  openNetfilter,
  type RuleChange,
  RuleEvents,
  TableCopies,
  type TableCopy,
  tableOfMessage,
} from "../../pkg/nftables/mod.ts"
import { findExposure } from "../../pkg/records/mod.ts"
import { cacheDirs } from "../node/mod.ts"
import { Announcements } from "./announcements.ts"

/** `NFT_MSG_NEWTABLE`, `NFT_MSG_DELCHAIN`, `NFT_MSG_DELRULE` */
const [NEWTABLE, DELTABLE, DELCHAIN, DELRULE] = [0xa00, 0xa02, 0xa05, 0xa08]
/** The tables that `iptables-nft` keeps the rules of the backend iptables in, and what the chains of these begin with. */
const IPTABLES = new Set(["filter", "nat", "mangle", "raw"])
const CHAINS = encodeUtf8("CNI-")

/** What was heard of the rule set. */
export interface RuleNews {
  /** Tables of ours that are gone, as they were. */
  readonly lost: readonly TableCopy[]
  /** The rule set's generation in which they are gone. */
  readonly generation: Generation
  /** Something else is gone that a DEL, or GC, has not taken: look at everything. */
  readonly isSuspect: boolean
  /** Notifications were lost. */
  readonly isOverrun: boolean
  /** firewalld has made its table. */
  readonly isFirewalld: boolean
}

/** Our tables in nf_tables: hears what is taken from them, and makes tables again that are gone. */
export class RuleWatch implements Disposable {
  readonly #socket = openNetfilter()
  readonly #copies = new TableCopies(this.#socket, isOurs)
  readonly #announcements = new Announcements()
  readonly #events: RuleEvents
  readonly #cacheDir: string
  /** Notifications were taken, and not followed to the end: something failed. */
  #isBehind = false

  /** Listens, and copies what is there. Throws `SyscallError`, `NetlinkError`. */
  constructor(cacheDir: string) {
    this.#cacheDir = cacheDir
    this.#events = new RuleEvents(isWanted)
    this.#announcements.read()
    this.#copies.load()
  }

  get fd() {
    return this.#events.fd
  }

  /** Takes what has been heard since. After it has thrown, the next one reads all tables anew. Throws `SyscallError`, `NetlinkError`. */
  take(): RuleNews {
    const wasBehind = this.#isBehind
    this.#isBehind = true
    const changes = this.#events.take()
    this.#announcements.read()
    const news = this.#follow(wasBehind ? undefined : changes)
    this.#isBehind = false
    return news
  }

  #follow(changes: readonly RuleChange[] | undefined): RuleNews {
    const lost = new Map<string, TableCopy>()
    let [isSuspect, isFirewalld, generation] = [false, false, 0 as Generation]
    if (!changes) {
      for (const table of this.#copies.load()) lost.set(nameOf(table), table)
      return {
        lost: [...lost.values()],
        generation: this.#copies.generation(),
        isSuspect: true,
        isOverrun: true,
        isFirewalld,
      }
    }
    for (const change of changes) {
      generation = change.generation
      const removal = this.#copies.follow(change.messages)
      for (const table of removal.tables) lost.set(nameOf(table), table)
      const foreign = change.messages.filter((message) => !isOurs(tableOfMessage(message)))
      isFirewalld ||= foreign.some(({ type }) => type === NEWTABLE)
      const isTaken = removal.comments.length > 0 && removal.comments.every((comment) => this.#isOver(comment))
      isSuspect ||= foreign.some(({ type }) => type !== NEWTABLE)
      isSuspect ||= !isTaken && (removal.comments.length > 0 || removal.isBroken)
    }
    return { lost: [...lost.values()], generation, isSuspect, isOverrun: false, isFirewalld }
  }

  /**
   * Makes tables again as they were, in one transaction, but for what DELs that have begun take out of them. Tables of which no
   * container lives, or that are there again, are left alone. Returns those that were made.
   */
  restore(lost: readonly TableCopy[], heardOf: Generation): readonly TableCopy[] {
    const records = this.#records()
    const isAlive = (comment: string) =>
      this.#announcements.verbOf(comment) === "ADD" ||
      comment.includes("~") ||
      records.has(comment.replaceAll("/", "-"))
    const wanted = lost.filter((table) => [...commentsIn(table)].some((one) => !this.#isDeleted(one) && isAlive(one)))
    let tables = wanted
    let generation = heardOf
    for (let attempt = 0; tables.length > 0; attempt++) {
      if (this.#copies.restore(tables, (comment) => this.#isDeleted(comment), generation)) break
      if (attempt === ATTEMPTS) return []
      generation = this.#copies.generation()
      tables = tables.filter((table) => !this.#copies.isThere(table))
    }
    this.#announcements.read() // a DEL that was announced since may have looked while they were gone
    const comments = new Set(wanted.flatMap((table) => [...commentsIn(table)]).filter((one) => this.#isDeleted(one)))
    if (comments.size > 0) this.#copies.removeElements((comment) => comments.has(comment))
    return tables
  }

  #isDeleted(comment: string): boolean {
    return this.#announcements.verbOf(comment) === "DEL"
  }

  /** Whether the attachment of a comment is deleted, or no cache has it: what GC removes. */
  #isOver(comment: string): boolean {
    if (this.#announcements.verbOf(comment) !== undefined) return this.#isDeleted(comment)
    return (
      comment.split("/").length === 3 && !comment.includes("~") && !this.#records().has(comment.replaceAll("/", "-"))
    )
  }

  /** The names of the records in all caches that root alone can change. */
  #records(): Set<string> {
    const believed = cacheDirs(this.#cacheDir).filter((directory) => findExposure(directory, "results") === undefined)
    return new Set(
      believed.flatMap(
        (directory) => unlessErrno(() => readDirectory(`${directory}/results`), "ENOENT", "ENOTDIR") ?? [],
      ),
    )
  }

  [Symbol.dispose](): void {
    this.#events[Symbol.dispose]()
    this.#socket[Symbol.dispose]()
  }
}

/** How often other transactions may come in between. */
const ATTEMPTS = 20

/** How a table is called in what is told of it. */
export const nameOf = ({ family, name }: TableCopy) => `table ${FAMILIES[family] ?? family} ${name}`
const FAMILIES: Readonly<Record<number, string>> = { 1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6" }

function isOurs(table: string): boolean {
  return table.startsWith("cni_")
}

/** All of our tables; of others what takes rules of the backend iptables away, and that firewalld has begun. */
function isWanted(message: Message): boolean {
  const table = tableOfMessage(message)
  if (isOurs(table)) return true
  if (message.type === NEWTABLE) return table === "firewalld"
  if (!IPTABLES.has(table)) return false
  if (message.type === DELTABLE) return true
  return (message.type === DELRULE || message.type === DELCHAIN) && findBytes(message.payload, CHAINS, 0) >= 0
}
