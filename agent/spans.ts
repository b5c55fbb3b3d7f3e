import type { Address } from "../ipam/host-local/main.ts"
import { AF_INET, type Family } from "../pkg/types/mod.ts"
import { formatPrefix, type Prefix, parsePrefix } from "./blocks.ts"

/** All addresses from one to another, both included. Every prefix is one. */
export interface Span {
  readonly family: Family
  readonly first: bigint
  readonly last: bigint
}

/** The addresses of a prefix, or the one address that a text is; none for anything else. */
export function spansOf(text: string): Span[] {
  const prefix = parsePrefix(text)
  return prefix ? [prefix] : []
}

/** The prefix of a length that an address lies in. */
export function prefixOf({ family, value }: Address, length: number): Prefix {
  const size = 1n << BigInt(bitsOf(family) - length)
  const first = value - (value % size)
  return { family, first, last: first + size - 1n, length }
}

/** Whether all addresses of `inner` are in `outer`. */
export function covers(outer: Span, inner: Span): boolean {
  return outer.family === inner.family && outer.first <= inner.first && inner.last <= outer.last
}

/** Whether two spans have addresses in common. */
export function meets(a: Span, b: Span): boolean {
  return a.family === b.family && a.first <= b.last && b.first <= a.last
}

/** The fewest prefixes that have exactly these addresses. */
export function prefixesOf(spans: readonly Span[]): string[] {
  return merged(spans).flatMap(({ family, first, last }) => {
    const found: string[] = []
    for (let at = first; at <= last; ) {
      let hostBits = 0
      const fits = (bits: number) =>
        bits <= bitsOf(family) && at % (1n << BigInt(bits)) === 0n && at + (1n << BigInt(bits)) - 1n <= last
      while (fits(hostBits + 1)) hostBits++
      found.push(formatPrefix({ family, first: at, length: bitsOf(family) - hostBits }))
      at += 1n << BigInt(hostBits)
    }
    return found
  })
}

/** The addresses that are in `spans` and in none of `taken`. */
export function without(spans: readonly Span[], taken: readonly Span[]): Span[] {
  return taken.reduce<Span[]>(
    (left, away) =>
      left.flatMap((span) => {
        if (!meets(span, away)) return [span]
        const before = { ...span, last: away.first - 1n }
        const after = { ...span, first: away.last + 1n }
        return [before, after].filter(({ first, last }) => first <= last)
      }),
    merged(spans),
  )
}

/** The addresses that are in `spans` and in `others`. */
export function within(spans: readonly Span[], others: readonly Span[]): Span[] {
  return without(spans, without(spans, others))
}

/** The same addresses in order, none twice. */
function merged(spans: readonly Span[]): Span[] {
  const sorted = spans.toSorted((a, b) => (a.family === b.family ? orderOf(a.first, b.first) : a.family - b.family))
  const found: Span[] = []
  for (const span of sorted) {
    const last = found.at(-1)
    if (last && last.family === span.family && span.first <= last.last + 1n)
      found[found.length - 1] = { ...last, last: orderOf(span.last, last.last) > 0 ? span.last : last.last }
    else found.push(span)
  }
  return found
}

function bitsOf(family: Family): number {
  return family === AF_INET ? 32 : 128
}

function orderOf(a: bigint, b: bigint): number {
  return a < b ? -1 : Number(a > b)
}
