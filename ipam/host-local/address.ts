import { formatIp, parseIp } from "../../pkg/types/mod.ts"

/** An IP address as a number: arithmetic is the same for both families. */
export interface Address {
  readonly family: 4 | 6
  /** The bits in network order: 10.0.0.1 is 0x0a000001n. */
  readonly value: bigint
}

/** The length of a family's addresses in bits. */
export function bitsOf(family: 4 | 6): number {
  return family === 4 ? 32 : 128
}

/** Reads an address; `undefined` for anything else. An IPv4-mapped one ("::ffff:10.0.0.1") is its IPv4 address. */
export function parseAddress(text: string): Address | undefined {
  const bytes = parseIp(text)
  return bytes && addressOf(bytes)
}

/** 4 or 16 bytes in network order as an address. By words of 32 bits: each operation on a `bigint` allocates. */
export function addressOf(bytes: Uint8Array): Address {
  let value = 0n
  for (let at = 0; at < bytes.length; at += 4) {
    let word = 0
    for (let index = at; index < at + 4; index++) word = word * 256 + (bytes[index] ?? 0)
    value = (value << 32n) | BigInt(word)
  }
  if (bytes.length === 4) return { family: 4, value }
  return value >> 32n === 0xffffn ? { family: 4, value: value & 0xffffffffn } : { family: 6, value }
}

/** An address as text, the one that names its file in the store: "10.0.0.1", "fd00::1". */
export function formatAddress({ family, value }: Address): string {
  const bytes = new Uint8Array(bitsOf(family) / 8)
  let rest = value
  for (let end = bytes.length; end > 0; end -= 4) {
    let word = Number(rest & 0xffffffffn)
    rest >>= 32n
    for (let at = end - 1; at >= end - 4; at--) {
      bytes[at] = word & 0xff
      word >>>= 8
    }
  }
  return formatIp(bytes)
}

/** The address that lies `step` further. */
export function offset({ family, value }: Address, step: bigint): Address {
  return { family, value: value + step }
}

export function isSameAddress(a: Address, b: Address): boolean {
  return a.family === b.family && a.value === b.value
}

/** Whether an address lies between two others of one family, ends included. */
export function isBetween({ family, value }: Address, first: Address, last: Address): boolean {
  return family === first.family && value >= first.value && value <= last.value
}
