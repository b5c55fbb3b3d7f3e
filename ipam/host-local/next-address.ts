import { messageOf } from "../../pkg/types/mod.ts"
import { ifPresent, readSmall, type StorePlace, writeSmall } from "./files.ts"
import type { Index } from "./index.ts"
import {
  type Address,
  formatAddress,
  isBetween,
  isKeptBack,
  offset,
  parseAddress,
  type Range,
  type RangeSet,
} from "./ranges.ts"

/** Returns the address that was handed out last from range set `index`. */
export function readCursor({ files, directory }: StorePlace, index: number): Address | undefined {
  const text = ifPresent(() => readSmall(files, cursorPath(directory, index)))
  return text === undefined ? undefined : parseAddress(text.trim())
}

/** Notes the last address of range set `index`. A failure is only logged: it makes addresses be reused sooner. */
export function writeCursor({ files, directory, log }: StorePlace, index: number, address: Address): void {
  try {
    writeSmall(files, cursorPath(directory, index), formatAddress(address))
  } catch (error) {
    log(`Cannot note the last reserved address: ${messageOf(error)}`)
  }
}

function cursorPath(directory: string, index: number): string {
  return `${directory}/last_reserved_ip.${index}`
}

/**
 * The address to hand out next: the first free one after the cursor, which is the address handed out last, around
 * through all ranges of the set and up to the cursor itself. So a freed address is reused as late as possible. Without
 * a cursor, or with one outside of the set, the search begins at the first range's start. `undefined` when the set is
 * full.
 */
export function nextAddress(set: RangeSet, cursor: Address | undefined, index: Index): Address | undefined {
  for (const [first, last] of walk(set, cursor)) {
    for (let at = first; at.value <= last.value; ) {
      const free = index.nextFree(at, last)
      if (!free) break
      if (!isKeptBack(set, free)) return free
      at = offset(free, 1n)
    }
  }
  return undefined
}

/** The set as stretches of addresses, in the order in which they are tried. A stretch may be empty. */
function walk(set: RangeSet, cursor: Address | undefined): [first: Address, last: Address][] {
  const before: [Address, Address][] = []
  const after: [Address, Address][] = []
  let current: Range | undefined
  for (const range of set) {
    if (!current && cursor && isBetween(cursor, range.start, range.end)) current = range
    else (current ? after : before).push([range.start, range.end])
  }
  if (!cursor || !current) return before
  return [[offset(cursor, 1n), current.end], ...after, ...before, [current.start, cursor]]
}
