import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  type Element,
  type FoundRule,
  findElements,
  LineChanges,
  Lines,
  membersOf,
  type NamedSet,
  type SharedSet,
  sampleElements,
} from "../../../pkg/nftables/mod.ts"
import { families, type Mapping } from "../mapping.ts"
import { mappingsFor } from "../parts.ts"
import { keyOf, placesOf, readMapping } from "./elements.ts"
import { type Layout, layoutOf } from "./layout.ts"
import { decodeNote } from "./note.ts"

/** What is to go from one family's table. */
export interface Doomed {
  layout: Layout
  changes: LineChanges
  /** What is to go, in the sets' keys. */
  elements: readonly Element[]
  conditions: readonly FoundRule[]
  /** Whether no other mapping is left. */
  isLast: boolean
  /** Whether nothing is there but the guard for `route_localnet`. */
  isGuardOnly: boolean
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
  const lines = new Lines(sockets.socket)
  for (const family of families) {
    const layout = layoutOf(family)
    const found = new Found(lines, comment)
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
    const maps = [layout.ports, layout.addressPorts]
    const isLast =
      found.changes.promoted.length === 0 && maps.every((map) => hasNoOther(sockets, map, comment, found.of(map)))
    missing = Math.min(missing, note.of)
    for (const { set, key } of places) if (found.count < missing) found.ask(set, key)
    missing -= found.count
    doomed.push({
      layout,
      changes: found.changes,
      elements: found.elements,
      conditions: [],
      isLast,
      isGuardOnly: false,
    })
    if (missing === 0) return doomed
  }
  return undefined
}

/** The elements of an owner, collected one by one. */
class Found {
  readonly #lines: Lines
  readonly #comment: string
  readonly #inForce = new Map<SharedSet, number>()
  readonly changes = new LineChanges()
  readonly elements: Element[] = []

  constructor(lines: Lines, comment: string) {
    this.#lines = lines
    this.#comment = comment
  }

  /** Looks whether the owner is among those who want a key. */
  ask(set: SharedSet, key: readonly Uint8Array[]): void {
    const line = this.#lines.find(set, key)
    const element = line.members.find((one) => one?.comment === this.#comment)
    if (!element) return
    if (element === line.members[0]) this.#inForce.set(set, this.of(set) + 1)
    this.elements.push(element)
    this.changes.change(
      line,
      membersOf(line).filter((one) => one !== element),
    )
  }

  get first(): Element | undefined {
    return this.elements[0]
  }

  get count(): number {
    return this.elements.length
  }

  /** How many of a set are in force. */
  of(set: SharedSet): number {
    return this.#inForce.get(set) ?? 0
  }
}

/** Whether a map has no elements besides these. */
function hasNoOther(sockets: Sockets, map: NamedSet, comment: string, ours: number): boolean {
  const { count, commented } = sampleElements(sockets.open(), map, comment)
  return commented === count && isCount(sockets, map, ours, count)
}

/** Whether a set has so many elements, and no more. Throws `NetlinkError`. */
export function hasOnly(sockets: Sockets, set: NamedSet, wanted: number): boolean {
  return isCount(sockets, set, wanted, sampleElements(sockets.open(), set, "").count)
}

function isCount({ socket }: Sockets, set: NamedSet, wanted: number, atLeast: number): boolean {
  if (atLeast < WHOLE || wanted < atLeast) return atLeast === wanted
  return findElements(socket, set, [])?.count === wanted
}
