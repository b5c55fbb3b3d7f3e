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

/** 4 or 16 bytes in network order as an address. */
export function addressOf(bytes: Uint8Array): Address {
  let value = 0n
  for (let at = 0; at < bytes.length; at++) value = (value << 8n) | BigInt(bytes[at] ?? 0)
  if (bytes.length === 4) return { family: 4, value }
  return value >> 32n === 0xffffn ? { family: 4, value: value & 0xffffffffn } : { family: 6, value }
}

/** An address as text, the one that names its file in the store: "10.0.0.1", "fd00::1". */
export function formatAddress({ family, value }: Address): string {
  const bytes = new Uint8Array(bitsOf(family) / 8)
  for (let at = bytes.length - 1, rest = value; at >= 0; at--, rest >>= 8n) bytes[at] = Number(rest & 0xffn)
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
