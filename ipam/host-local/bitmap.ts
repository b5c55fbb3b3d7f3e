import type { Address } from "./address.ts"

/** The bytes of one page of the bitmap: a bit for each of 32768 addresses, set when the address is taken. */
export const pageBytes = 4096

const bitsPerPage = BigInt(pageBytes * 8)

/** Where in the bitmap an address is. */
export interface Place {
  /** "used-4-1e002": family and number of the page. */
  readonly page: string
  /** The first address of the page. */
  readonly start: bigint
  readonly bit: number
}

export function placeOf({ family, value }: Address): Place {
  const number = value / bitsPerPage
  const start = number * bitsPerPage
  return { page: `used-${family}-${number.toString(16)}`, start, bit: Number(value - start) }
}

/** Marks an address of a page; answers the index of the byte that holds it. */
export function mark(page: Uint8Array, bit: number, taken: boolean): number {
  const at = bit >> 3
  const mask = 1 << (bit & 7)
  page[at] = taken ? (page[at] ?? 0) | mask : (page[at] ?? 0) & ~mask
  return at
}

/** The first bit from `bit` on that is not set; `undefined` when the rest of the page is full. */
export function firstFree(page: Uint8Array, bit: number): number | undefined {
  for (let at = bit >> 3; at < page.length; at++) {
    const byte = (page[at] ?? 0) | (at === bit >> 3 ? (1 << (bit & 7)) - 1 : 0)
    if (byte !== 0xff) return at * 8 + 31 - Math.clz32(~byte & (byte + 1))
  }
  return undefined
}
