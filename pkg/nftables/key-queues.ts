import { dataTypes } from "./data-types.ts"
import { findElements, getElement } from "./elements.ts"
import type { Netfilter } from "./netfilter.ts"
import { add, create, type Element, type NamedSet, type Operation, remove, type Table } from "./rule-set.ts"
import { listSetNames } from "./tables.ts"

/**
 * A set or map in which several owners may claim the same key. The element of the first owner is in the set and active.
 * The elements of the others wait in a second set, in order. The second set is created with its first element.
 */
export interface SharedSet extends NamedSet {
  /** The second set. Its keys are a key of the first set and the position in the queue; 1 is next. */
  standby: NamedSet
}

export function sharedSet(set: NamedSet): SharedSet {
  const name = `${set.name}_standby`
  return { ...set, standby: { ...set, name, key: [...set.key, dataTypes.port], comment: `waiting for ${set.name}` } }
}

/** A key's elements in order. The first is active; it is undefined if another program has removed it. */
export interface KeyQueue {
  set: SharedSet
  key: readonly Uint8Array[]
  members: readonly [inForce: Element | undefined, ...standingBy: Element[]]
}

/** Some elements of one set. */
export interface Group {
  set: NamedSet
  elements: Element[]
}

/** Reads queues from the rule set. The names of the sets in a table are requested only once. */
export class KeyQueues {
  readonly #socket: Pick<Netfilter, "get" | "dump">
  readonly #names = new Map<string, readonly string[]>()

  constructor(socket: Pick<Netfilter, "get" | "dump">) {
    this.#socket = socket
  }

  /** Reports whether this set exists. Throws `NetlinkError`. */
  has({ table, name }: NamedSet): boolean {
    return this.namesIn(table).includes(name)
  }

  /**
   * Returns the queue of a key. If the second set does not exist, this takes one request; otherwise two, and one more
   * for each waiting element. Throws `NetlinkError`.
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

  /** Returns the names of a table's sets; an empty list if the table does not exist. Throws `NetlinkError`. */
  namesIn(table: Table): readonly string[] {
    const id = `${table.family} ${table.name}`
    const known = this.#names.get(id) ?? listSetNames(this.#socket, table)
    this.#names.set(id, known)
    return known
  }
}

/** Returns the elements of a queue, without a missing active element. */
export function membersOf({ members }: KeyQueue): Element[] {
  return members.filter((one) => one !== undefined)
}

/** Returns an element's key, without the position in the queue that a waiting element's key also has. */
export function keyIn(set: SharedSet, { key }: Element): readonly Uint8Array[] {
  return key.slice(0, set.key.length)
}

/** Collects changes of queues, by set. */
export class QueueChanges {
  readonly #removed = new Map<NamedSet, Element[]>()
  readonly #created = new Map<NamedSet, Element[]>()
  /** The elements that were waiting and become active. */
  readonly promoted: { set: SharedSet; element: Element }[] = []

  /** Changes a queue so that it consists of the elements `wanted`, in this order. */
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

  /** Appends an owner's element to a queue, or replaces its old one in place. Removes stale elements of others. */
  claim(queue: KeyQueue, element: Element, isStale: (member: Element) => boolean): void {
    const others = membersOf(queue).flatMap((one) =>
      one.comment === element.comment ? [element] : isStale(one) ? [] : [one],
    )
    this.change(queue, others.includes(element) ? others : [...others, element])
  }

  /** Removes elements for which `isGone` is true from a queue. The next element becomes active. */
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

  /** The operations that make the changes and create the missing second sets. */
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
 * Returns the queues of all elements in these sets for which `isSought` is true, and the number of other elements.
 * `needles`, if given, speeds up the search: the bytes of each sought element must contain one of them. Throws
 * `NetlinkError`.
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

/**
 * Returns operations that remove second sets which the changes empty. `isAll` reports whether a set has exactly `count`
 * elements. Throws `NetlinkError`.
 */
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

/** Reports whether two elements with the same key have the same owner and content. */
function isSame(a: Element, b: Element): boolean {
  return a.comment === b.comment && a.note === b.note && String(a.value) === String(b.value)
}

function position(at: number): Uint8Array {
  return Uint8Array.of(at >> 8, at & 0xff)
}
