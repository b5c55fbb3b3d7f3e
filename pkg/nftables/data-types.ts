import { encodeUtf8 } from "../engine/mod.ts"
import { mac, text, u16be, u32 } from "../netlink/mod.ts"
import { formatIp } from "../types/mod.ts"

/** The type of a value in a set or a comparison: `enum datatypes` of nft, src `datatype.h`. */
export interface DataType {
  /** The name that `nft describe` prints. */
  readonly name: string
  readonly id: number
  /** The size of a value in bytes. */
  readonly size: number
  /** The byte order of numbers in sets: 1 for the machine's, 2 for the network's, 0 for neither. */
  readonly byteOrder: 0 | 1 | 2
  /** Formats a value as `nft` does. */
  print(value: Uint8Array): string
  /** The numbers of the flags by name, if the type is a set of flags. */
  readonly bits?: Readonly<Record<string, number>>
}

const protocolNames: Readonly<Record<number, string>> = {
  1: "icmp",
  6: "tcp",
  17: "udp",
  58: "ipv6-icmp",
  132: "sctp",
}
/** `NFPROTO_*` */
const familyNames: Readonly<Record<number, string>> = { 2: "ipv4", 10: "ipv6" }
/** `RTN_*`, <linux/rtnetlink.h> */
const addressTypeNames: Readonly<Record<number, string>> = { 1: "unicast", 2: "local", 3: "broadcast", 5: "multicast" }

const printNumber = (value: Uint8Array) => String(u32.decode(value))
const named = (names: Readonly<Record<number, string>>, number: number) => names[number] ?? String(number)

const ctState = { invalid: 1, established: 2, related: 4, new: 8, untracked: 64 } as const
const ctStatus = { expected: 1, "seen-reply": 2, assured: 4, confirmed: 8, snat: 16, dnat: 32, dying: 512 } as const

function flags<const Bits extends Readonly<Record<string, number>>>(name: string, id: number, bits: Bits) {
  return {
    name,
    id,
    size: 4,
    byteOrder: 1,
    bits,
    print: (value: Uint8Array) => {
      const number = u32.decode(value)
      const names = Object.entries(bits).flatMap(([bit, mask]) => (number & mask ? [bit] : []))
      return names.length > 0 ? names.join(",") : String(number)
    },
  } as const
}

export const dataTypes = {
  family: { name: "nf_proto", id: 2, size: 1, byteOrder: 1, print: ([n = 0]) => named(familyNames, n) },
  ipv4: { name: "ipv4_addr", id: 7, size: 4, byteOrder: 2, print: formatIp },
  ipv6: { name: "ipv6_addr", id: 8, size: 16, byteOrder: 2, print: formatIp },
  ether: { name: "ether_addr", id: 9, size: 6, byteOrder: 2, print: mac.decode },
  protocol: { name: "inet_proto", id: 12, size: 1, byteOrder: 2, print: ([n = 0]) => named(protocolNames, n) },
  port: { name: "inet_service", id: 13, size: 2, byteOrder: 2, print: (value) => String(u16be.decode(value)) },
  mark: { name: "mark", id: 19, size: 4, byteOrder: 1, print: (value) => `0x${u32.decode(value).toString(16)}` },
  ifindex: { name: "iface_index", id: 20, size: 4, byteOrder: 1, print: printNumber },
  ctState: flags("ct_state", 26, ctState),
  ctDirection: { name: "ct_dir", id: 27, size: 1, byteOrder: 1, print: ([n]) => (n === 0 ? "original" : "reply") },
  ctStatus: flags("ct_status", 28, ctStatus),
  addressType: {
    name: "fib_addrtype",
    id: 38,
    size: 4,
    byteOrder: 1,
    print: (value) => named(addressTypeNames, u32.decode(value)),
  },
  ifname: { name: "ifname", id: 41, size: 16, byteOrder: 1, print: (value) => `"${text.decode(value)}"` },
} as const satisfies Record<string, DataType>

/** Returns the name of an interface as rules compare it: 16 bytes, padded with zeros. */
export function ifnameValue(name: string): Uint8Array {
  const value = new Uint8Array(dataTypes.ifname.size)
  const encoded = encodeUtf8(name)
  if (encoded.length > 15) throw new RangeError(`interface name "${name}" has ${encoded.length} bytes: at most 15 fit`)
  value.set(encoded)
  return value
}

/** Returns the number of 32-bit registers that a value of this type fills. */
export function wordsOf(type: DataType): number {
  return Math.ceil(type.size / 4)
}

/**
 * Joins the parts of a key to one value. As in registers, each part of a concatenation starts at a multiple of four
 * bytes. Throws `RangeError` if a part does not have the size of its type.
 */
export function joinParts(types: readonly DataType[], parts: readonly Uint8Array[]): Uint8Array {
  if (parts.length !== types.length) throw new RangeError(`expected ${types.length} values, found ${parts.length}`)
  const [only] = parts
  if (parts.length === 1 && only?.length === types[0]?.size) return only as Uint8Array
  const whole = new Uint8Array(keyLength(types))
  let at = 0
  let index = 0
  for (const type of types) {
    const part = parts[index++]
    if (part?.length !== type.size) throw new RangeError(`${type.name} has ${type.size} bytes, found ${part?.length}`)
    whole.set(part, at)
    at += 4 * wordsOf(type)
  }
  return whole
}

/** Splits a value that `joinParts` has joined. */
export function splitParts(types: readonly DataType[], whole: Uint8Array): Uint8Array[] {
  let at = 0
  return types.map((type) => {
    const part = whole.subarray(at, at + type.size)
    at += 4 * wordsOf(type)
    return part
  })
}

/** Returns a key's size in bytes. In a concatenation each part is rounded up to a multiple of four. */
export function keyLength(types: readonly DataType[]): number {
  const [only, ...more] = types
  if (only && more.length === 0) return only.size
  let length = 0
  for (const type of types) length += 4 * wordsOf(type)
  return length
}

/** Returns the number of a type, or of a concatenation, which has six bits for each part. */
export function typeId(types: readonly DataType[]): number {
  let id = 0
  for (const type of types) id = (id << 6) | type.id
  return id
}
