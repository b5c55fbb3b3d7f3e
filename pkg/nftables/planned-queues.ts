import { decodeLatin1 } from "../engine/mod.ts"
import { sameBytes } from "../types/mod.ts"
import { elementText, findElements, listElementTexts } from "./elements.ts"
import { type KeyQueue, type KeyQueues, keyIn, QueueChanges, type SharedSet } from "./key-queues.ts"
import type { Netfilter } from "./netfilter.ts"
import type { Element } from "./rule-set.ts"

/**
 * The relation of another owner's element to an element that claims the same key. "shares": both keep the key; "stale":
 * the other element is replaced; "holds": the other element alone keeps the key.
 */
export type Standing = "shares" | "stale" | "holds"

/** A claim's result: the element is "there", or "missing" and to be added, or `holder` keeps the key. */
export type Claim = "there" | "missing" | { readonly holder: Element }

interface Planned {
  key: readonly Uint8Array[]
  before: (Element | undefined)[]
  after: Element[]
}

/**
 * Queues of whole sets, for a change of many owners' elements. Each set is decoded at most once, and only if an element
 * is missing, however many elements are claimed. A claimed element counts as existing in later claims.
 */
export class PlannedQueues {
  readonly #socket: Pick<Netfilter, "dump">
  readonly #queues: KeyQueues
  readonly #sets = new Map<SharedSet, Map<string, Planned>>()
  readonly #alone = new Map<SharedSet, Set<string>>()

  constructor(socket: Pick<Netfilter, "dump">, queues: KeyQueues) {
    this.#socket = socket
    this.#queues = queues
  }

  /**
   * Claims a place for an element in the queue of its key: its present place, or the last place, behind elements that
   * share the key. Throws `NetlinkError`.
   */
  claim(set: SharedSet, element: Element, standing: (other: Element) => Standing): Claim {
    if (this.#isAlone(set, element)) return "there"
    const queues = this.#sets.getOrInsertComputed(set, () => this.#read(set))
    const queue = queues.getOrInsertComputed(textOf(element.key), () => ({ key: element.key, before: [], after: [] }))
    const others = queue.after.filter((one) => one.comment !== element.comment)
    const holder = others.find((one) => standing(one) === "holds")
    if (holder) return { holder }
    const own = queue.after.find((one) => one.comment === element.comment)
    const isThere = own && hasSameValue(own, element)
    const staying = queue.after.filter((one) => one === own || standing(one) !== "stale")
    queue.after = isThere ? staying : [...staying.filter((one) => one !== own), element]
    return isThere && staying.length === others.length + 1 ? "there" : "missing"
  }

  /**
   * Reports whether the element exists and no other element has its key, which is true for nearly all elements. Returns
   * false once the set has been read to plan changes.
   */
  #isAlone(set: SharedSet, element: Element): boolean {
    if (this.#sets.has(set)) return false
    const list = () =>
      this.#queues.has(set) && !this.#queues.has(set.standby) ? listElementTexts(this.#socket, set) : new Set<string>()
    return this.#alone.getOrInsertComputed(set, list).has(elementText(set, element))
  }

  /** The changes that all claims need. */
  get changes(): QueueChanges {
    const changes = new QueueChanges()
    for (const [set, queues] of this.#sets)
      for (const { key, before, after } of queues.values())
        changes.change({ set, key, members: before as unknown as KeyQueue["members"] }, after)
    return changes
  }

  #read(set: SharedSet): Map<string, Planned> {
    const found = new Map<string, Planned>()
    for (const each of [set, set.standby]) {
      const elements = this.#queues.has(each) ? (findElements(this.#socket, each)?.elements ?? []) : []
      for (const one of elements) {
        const key = keyIn(set, one)
        const queue = found.getOrInsertComputed(textOf(key), () => ({ key, before: [], after: [] }))
        queue.before[each === set ? 0 : placeIn(one)] = { ...one, key }
      }
    }
    for (const queue of found.values()) queue.after = queue.before.filter((one) => one !== undefined)
    return found
  }
}

/** Returns a key as text, for use as a key of a `Map`. */
function textOf(key: readonly Uint8Array[]): string {
  return key.map(decodeLatin1).join()
}

function hasSameValue({ value: a = [] }: Element, { value: b = [] }: Element): boolean {
  return a.length === b.length && a.every((part, at) => sameBytes(part, b[at] as Uint8Array))
}

function placeIn({ key }: Element): number {
  const [high = 0, low = 0] = key.at(-1) ?? []
  return (high << 8) | low
}
