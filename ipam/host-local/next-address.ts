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

/** Returns the last assigned address of range set `index`. */
export function readCursor({ files, directory }: StorePlace, index: number): Address | undefined {
  const text = ifPresent(() => readSmall(files, cursorPath(directory, index)))
  return text === undefined ? undefined : parseAddress(text.trim())
}

/**
 * Writes the last assigned address of range set `index`. Only logs a failure, which makes addresses be reused sooner.
 */
export function writeCursor({ files, directory, log }: StorePlace, index: number, address: Address): void {
  try {
    writeSmall(files, cursorPath(directory, index), formatAddress(address))
  } catch (error) {
    log(`Cannot record the last reserved address: ${messageOf(error)}`)
  }
}

function cursorPath(directory: string, index: number): string {
  return `${directory}/last_reserved_ip.${index}`
}

/**
 * Returns the next address to assign: the first free one after `cursor`, the last assigned address. Searches all ranges
 * of the set, and at last the addresses up to the cursor, so that a released address is reused as late as possible.
 * Starts at the first range if the cursor is not in the set. Returns `undefined` if the set is full.
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

/** Returns the addresses of a set as intervals in the order of the search. An interval may be empty. */
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
