import { type Address, isBetween, offset } from "./address.ts"
import { isKeptBack, type Range, type RangeSet } from "./ranges.ts"

/** Answers the first free address of `first` to `last`, or nothing. */
export type NextFree = (first: Address, last: Address) => Address | undefined

/**
 * The address to hand out next: the first free one after the cursor, which is the address handed out last, around
 * through all ranges of the set and up to the cursor itself. So an address that was freed rests as long as possible.
 * A cursor outside of the set counts as none: from the first range's start on. `undefined` when the set is full.
 */
export function nextAddress(set: RangeSet, cursor: Address | undefined, nextFree: NextFree): Address | undefined {
  for (const [first, last] of walk(set, cursor)) {
    for (let at = first; at.value <= last.value; ) {
      const free = nextFree(at, last)
      if (!free) break
      if (!isKeptBack(set, free)) return free
      at = offset(free, 1n)
    }
  }
  return undefined
}

/** The set as stretches of addresses, in the order in which they are tried. A stretch may be empty. */
export function walk(set: RangeSet, cursor: Address | undefined): [first: Address, last: Address][] {
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
