/** Bytes of which some bits may be unknown: what a register holds of a packet that has not been sent. */
export interface Bits {
  readonly value: Uint8Array
  /** A mask: 1 for each bit that is known. */
  readonly known: Uint8Array
  /** The unknown fact, for messages: "the source port". */
  readonly what?: string
  /** Whether the kernel makes it by chance for each packet. */
  readonly isRandom?: boolean
}

/** Bytes that are known. */
export function knownBits(value: Uint8Array): Bits {
  return { value, known: new Uint8Array(value.length).fill(0xff) }
}

/** As many bytes as a register may hold, of which nothing is known. */
export function unknownBits(what: string, isRandom = false): Bits {
  return { value: new Uint8Array(SIZE), known: new Uint8Array(SIZE), what, isRandom }
}

/** The length in bytes of the longest value that a register holds. */
const SIZE = 16

/** Whether every bit is known. */
export function isKnown({ known }: Bits): boolean {
  return known.every((byte) => byte === 0xff)
}

/** Bits that two values agree on and know; the others are unknown. */
export function agreeing(one: Bits, other: Bits, what: string): Bits {
  const known = one.known.map(
    (byte, at) => byte & (other.known[at] ?? 0) & ~((one.value[at] ?? 0) ^ (other.value[at] ?? 0)),
  )
  return { value: one.value, known, what }
}

/** (bits & mask) ^ xor: a bit that the mask takes away is known to be 0. */
export function maskedBits(bits: Bits, mask: Uint8Array, xor: Uint8Array): Bits {
  const at = (bytes: Uint8Array, index: number) => bytes[index] ?? 0
  return {
    ...bits,
    value: bits.value.map((byte, index) => (byte & at(mask, index)) ^ at(xor, index)),
    known: bits.known.map((byte, index) => byte | (~at(mask, index) & 0xff)),
  }
}

/** Whether bits may be those of a value, as far as they are known. */
export function mayBe(bits: Bits, value: Uint8Array): boolean {
  return value.every((byte, at) => (((bits.value[at] ?? 0) ^ byte) & (bits.known[at] ?? 0)) === 0)
}

/** The comparison of bits with a value of as many bytes: less, equal, greater; "unequal" where only that is known; undefined where nothing is. */
export function compareBits(bits: Bits, value: Uint8Array): -1 | 0 | 1 | "unequal" | undefined {
  let isSure = true
  for (let at = 0; at < value.length; at++) {
    const known = bits.known[at] ?? 0
    const difference = (bits.value[at] ?? 0) - (value[at] ?? 0)
    if (known === 0xff && difference !== 0 && isSure) return difference < 0 ? -1 : 1
    if ((((bits.value[at] ?? 0) ^ (value[at] ?? 0)) & known) !== 0) return "unequal"
    isSure &&= known === 0xff
  }
  return isSure ? 0 : undefined
}
