/** Bytes with possibly unknown bits, such as a register's value for a packet that has not been sent. */
export interface Bits {
  readonly value: Uint8Array
  /** A mask with 1 for each known bit. */
  readonly known: Uint8Array
  /** The unknown fact in words, for messages: "the source port". */
  readonly what?: string
  /** Whether the kernel chooses the value at random for each packet. */
  readonly isRandom?: boolean
}

export function knownBits(value: Uint8Array): Bits {
  return { value, known: new Uint8Array(value.length).fill(0xff) }
}

/** Creates bytes of a register's maximum size, all unknown. */
export function unknownBits(what: string, isRandom = false): Bits {
  return { value: new Uint8Array(SIZE), known: new Uint8Array(SIZE), what, isRandom }
}

/** The size of the longest register value in bytes. */
const SIZE = 16

export function isKnown({ known }: Bits): boolean {
  return known.every((byte) => byte === 0xff)
}

/** Returns the bits that are known and equal in both values. All others are unknown. */
export function agreeing(one: Bits, other: Bits, what: string): Bits {
  const known = one.known.map(
    (byte, at) => byte & (other.known[at] ?? 0) & ~((one.value[at] ?? 0) ^ (other.value[at] ?? 0)),
  )
  return { value: one.value, known, what }
}

/** Returns (bits & mask) ^ xor. A bit that the mask clears is known to be 0. */
export function maskedBits(bits: Bits, mask: Uint8Array, xor: Uint8Array): Bits {
  const at = (bytes: Uint8Array, index: number) => bytes[index] ?? 0
  return {
    ...bits,
    value: bits.value.map((byte, index) => (byte & at(mask, index)) ^ at(xor, index)),
    known: bits.known.map((byte, index) => byte | (~at(mask, index) & 0xff)),
  }
}

/** Reports whether a value agrees with all known bits. */
export function mayBe(bits: Bits, value: Uint8Array): boolean {
  return value.every((byte, at) => (((bits.value[at] ?? 0) ^ byte) & (bits.known[at] ?? 0)) === 0)
}

/**
 * Compares bits with a value of the same size: -1 for less, 0 for equal, 1 for greater. Returns "unequal" if only that
 * is known, and undefined if nothing is known.
 */
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
