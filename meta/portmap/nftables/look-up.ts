import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  type Element,
  type FoundRule,
  findElements,
  getElement,
  type NamedSet,
  sampleElements,
} from "../../../pkg/nftables/mod.ts"
import { families, type Mapping } from "../mapping.ts"
import { mappingsFor } from "../parts.ts"
import { type Group, keyOf, placesOf, readMapping } from "./elements.ts"
import { type Layout, layoutOf } from "./layout.ts"
import { decodeNote } from "./note.ts"

/** What is to go from one family's table. */
export interface Doomed {
  layout: Layout
  groups: readonly Group[]
  conditions: readonly FoundRule[]
  /** Whether no other mapping is left. */
  isLast: boolean
}

/** Two ways to ask nf_tables. */
export interface Sockets {
  socket: NetlinkSocket
  /** Opens one more, for a look at the beginning of a list; somebody else closes it. */
  open(): NetlinkSocket
}

/** A shorter list than this has been looked at in full: so many of the longest elements fit into one answer. */
const WHOLE = 10

/**
 * What an attachment has in the tables, found by asking for its ports one by one. Undefined when that may not be all: the
 * elements' notes say how many there are. Throws `NetlinkError`.
 */
export function lookUp(sockets: Sockets, comment: string, mappings: readonly Mapping[]): Doomed[] | undefined {
  const doomed: Doomed[] = []
  let missing = Number.POSITIVE_INFINITY
  for (const family of families) {
    const layout = layoutOf(family)
    const found = new Found(sockets.socket, comment)
    for (const mapping of mappingsFor(family, mappings)) {
      const { set, key } = keyOf(layout, mapping)
      found.ask(set, key)
    }
    const { first } = found
    if (!first) continue
    const note = decodeNote(first.note)
    const ip = readMapping(first)?.ip
    if (!note || !ip || note.isConditional) return undefined
    const places = placesOf(layout, { ip, prefix: note.prefix })
    const isLast = [layout.ports, layout.addressPorts].every((map) => hasNoOther(sockets, map, comment, found.of(map)))
    missing = Math.min(missing, note.of)
    for (const { set, key } of places) if (found.count < missing) found.ask(set, key)
    missing -= found.count
    doomed.push({ layout, groups: found.groups, conditions: [], isLast })
    if (missing === 0) return doomed
  }
  return undefined
}

/** The elements of an owner, collected one by one. */
class Found {
  readonly #socket: NetlinkSocket
  readonly #comment: string
  readonly #elements = new Map<NamedSet, Element[]>()
  first: Element | undefined
  count = 0

  constructor(socket: NetlinkSocket, comment: string) {
    this.#socket = socket
    this.#comment = comment
  }

  /** Looks whether the element of a key is the owner's. */
  ask(set: NamedSet, key: readonly Uint8Array[]): void {
    const element = getElement(this.#socket, set, key)
    if (element?.comment !== this.#comment) return
    this.first ??= element
    this.count++
    this.#elements.getOrInsert(set, []).push(element)
  }

  /** How many a set has. */
  of(set: NamedSet): number {
    return this.#elements.get(set)?.length ?? 0
  }

  get groups(): Group[] {
    return [...this.#elements].map(([set, elements]) => ({ set, elements }))
  }
}

/** Whether a map has no elements besides these. */
function hasNoOther({ socket, open }: Sockets, map: NamedSet, comment: string, ours: number): boolean {
  const { count, commented } = sampleElements(open(), map, comment)
  if (commented < count) return false
  return (count < WHOLE ? count : findElements(socket, map, [])?.count) === ours
}
