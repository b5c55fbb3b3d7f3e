import { dataTypes } from "./data-types.ts"
import { findElements, getElement } from "./elements.ts"
import type { Netfilter } from "./netfilter.ts"
import { add, create, type Element, type NamedSet, type Operation, remove, type Table } from "./rule-set.ts"
import { listSetNames } from "./tables.ts"

/**
 * A set or map whose keys several owners may claim. The first owner's element is in the set and active; the others'
 * wait in a second set, in their order. That set is created with the first element that waits.
 */
export interface SharedSet extends NamedSet {
  /** The key, followed by the place in the queue: 1 is next. */
  standby: NamedSet
}

export function sharedSet(set: NamedSet): SharedSet {
  const name = `${set.name}_standby`
  return { ...set, standby: { ...set, name, key: [...set.key, dataTypes.port], comment: `of ${set.name}, by turns` } }
}

/** All elements with the same key. The first is active; it is undefined if a program has removed it. */
export interface KeyQueue {
  set: SharedSet
  key: readonly Uint8Array[]
  members: readonly [inForce: Element | undefined, ...standingBy: Element[]]
}

/** Elements of one set. */
export interface Group {
  set: NamedSet
  elements: Element[]
}

/** Reads queues for one reading of the rule set: the names of sets are requested once per table. */
export class KeyQueues {
  readonly #socket: Pick<Netfilter, "get" | "dump">
  readonly #names = new Map<string, readonly string[]>()

  constructor(socket: Pick<Netfilter, "get" | "dump">) {
    this.#socket = socket
  }

  /** Whether this set exists. Throws `NetlinkError`. */
  has({ table, name }: NamedSet): boolean {
    return this.namesIn(table).includes(name)
  }

  /**
   * Returns the queue of a key: one request, or two and one more for each element that waits. Throws `NetlinkError`.
   */
  find(set: SharedSet, key: readonly Uint8Array[]): KeyQueue {
    const first = this.has(set) ? getElement(this.#socket, set, key) : undefined
    const members: [Element | undefined, ...Element[]] = [first]
    while (this.has(set.standby)) {
      const found = getElement(this.#socket, set.standby, [...key, position(members.length)])
      if (!found) break
      members.push({ ...found, key })
    }
    return { set, key, members }
  }

  /** Returns the names of a table's sets; empty if the table does not exist. Throws `NetlinkError`. */
  namesIn(table: Table): readonly string[] {
    const id = `${table.family} ${table.name}`
    const known = this.#names.get(id) ?? listSetNames(this.#socket, table)
    this.#names.set(id, known)
    return known
  }
}

/** Returns the existing elements of a queue. */
export function membersOf({ members }: KeyQueue): Element[] {
  return members.filter((one) => one !== undefined)
}

/** Returns the key of an element of a set, or of one that waits for it. */
export function keyIn(set: SharedSet, { key }: Element): readonly Uint8Array[] {
  return key.slice(0, set.key.length)
}

/** The changes of queues, collected by set. */
export class QueueChanges {
  readonly #removed = new Map<NamedSet, Element[]>()
  readonly #created = new Map<NamedSet, Element[]>()
  /** The elements that waited and become active. */
  readonly promoted: { set: SharedSet; element: Element }[] = []

  /** Makes a queue consist of these elements, in this order. */
  change({ set, key, members }: KeyQueue, wanted: readonly Element[]): void {
    const length = Math.max(members.length, wanted.length)
    for (let at = 0; at < length; at++) {
      const [before, after] = [members[at], wanted[at]]
      if (before && (before === after || (after && isSame(before, after)))) continue
      const place = at === 0 ? { set, key } : { set: set.standby, key: [...key, position(at)] }
      if (before) this.#removed.getOrInsert(place.set, []).push({ ...before, key: place.key })
      if (after) this.#created.getOrInsert(place.set, []).push({ ...after, key: place.key })
      if (at === 0 && after && members.slice(1).some((one) => one?.comment === after.comment)) {
        this.promoted.push({ set, element: after })
      }
    }
  }

  /** Keeps an owner's element at its place in a queue, or adds it at the end, and removes stale elements. */
  claim(queue: KeyQueue, element: Element, isStale: (member: Element) => boolean): void {
    const others = membersOf(queue).flatMap((one) =>
      one.comment === element.comment ? [element] : isStale(one) ? [] : [one],
    )
    this.change(queue, others.includes(element) ? others : [...others, element])
  }

  /** Removes elements that are `isGone` from a queue; the next one becomes active. */
  remove(queue: KeyQueue, isGone: (member: Element) => boolean): void {
    this.change(
      queue,
      membersOf(queue).filter((one) => !isGone(one)),
    )
  }

  get removed(): Group[] {
    return groups(this.#removed)
  }

  get created(): Group[] {
    return groups(this.#created)
  }

  /** The changes, with the sets that they need. */
  get operations(): Operation[] {
    return [
      ...this.removed.map(({ set, elements }) => remove.elements(set, elements)),
      ...this.created.flatMap(({ set, elements }) => [
        ...("standby" in set ? [] : [add.set(set)]),
        create.elements(set, elements),
      ]),
    ]
  }
}

/**
 * Returns the queues of all elements that `isSought` in these sets, and the number of other elements; with `needles`
 * the bytes of each sought element contain one of them. Throws `NetlinkError`.
 */
export function findQueues(
  { socket, queues, sets }: { socket: Pick<Netfilter, "dump">; queues: KeyQueues; sets: readonly SharedSet[] },
  isSought: (element: Element) => boolean,
  needles: readonly Uint8Array[] | undefined,
): { found: KeyQueue[]; others: number } {
  let others = 0
  const found = sets.flatMap((set) => {
    const known = new Map<string, KeyQueue>() // while a set grows, the kernel may list an element twice
    for (const each of [set, set.standby]) {
      const list = queues.has(each) ? findElements(socket, each, needles) : undefined
      const sought = (list?.elements ?? []).map((one) => ({ ...one, key: keyIn(set, one) })).filter(isSought)
      others += (list?.count ?? 0) - sought.length
      for (const one of sought) {
        known.getOrInsertComputed(String(one.key), () => {
          return queues.has(set.standby) ? queues.find(set, one.key) : { set, key: one.key, members: [one] }
        })
      }
    }
    return [...known.values()]
  })
  return { found, others }
}

/** Removes the empty sets. `isAll` returns whether a set has exactly this many elements. Throws `NetlinkError`. */
export function removeEmptied(
  socket: Pick<Netfilter, "dump">,
  { removed, created }: QueueChanges,
  isAll = (set: NamedSet, count: number) => findElements(socket, set, [])?.count === count,
): Operation[] {
  return removed.flatMap(({ set, elements }) => {
    const isNeeded = "standby" in set || created.some((group) => group.set === set)
    return !isNeeded && isAll(set, elements.length) ? [remove.set(set)] : []
  })
}

function groups(bySet: ReadonlyMap<NamedSet, Element[]>): Group[] {
  return [...bySet].map(([set, elements]) => ({ set, elements }))
}

/** Whether two elements of one key have the same owner and content. */
function isSame(a: Element, b: Element): boolean {
  return a.comment === b.comment && a.note === b.note && String(a.value) === String(b.value)
}

function position(at: number): Uint8Array {
  return Uint8Array.of(at >> 8, at & 0xff)
}
