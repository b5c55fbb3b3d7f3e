/**
 * How one value travels: its bytes in a netlink attribute or a C struct. Integers are little or big endian by the
 * codec's name; a plain `u32` is in the machine's order, and every machine that we build for is little endian.
 */
export interface Codec<T> {
  /** The value's bytes. Throws `RangeError` for a value that does not fit. */
  encode(value: T): Uint8Array
  /** The value of these bytes, all of them. Throws `DecodeError` when their length is wrong. */
  decode(bytes: Uint8Array): T
  /** Bytes, where it is fixed: what can stand in a `struct`. */
  readonly size?: number
  /** An attribute with attributes inside, which carries `NLA_F_NESTED`. */
  readonly nested?: true
}

/** The type that a codec, or a table of attributes, stands for. */
export type Infer<C> = C extends Codec<infer T> ? T : never

/** Bytes that are not what the format says. */
export class DecodeError extends Error {
  override readonly name = "DecodeError"
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

interface IntegerCodec<T> extends Codec<T> {
  readonly size: number
}

function integer(
  size: number,
  min: number,
  max: number,
  get: (view: DataView) => number,
  set: (view: DataView, value: number) => void,
): IntegerCodec<number> {
  return {
    size,
    encode(value) {
      if (!Number.isInteger(value) || value < min || value > max) {
        throw new RangeError(`${value} does not fit: expected ${min} to ${max}`)
      }
      const bytes = new Uint8Array(size)
      set(viewOf(bytes), value)
      return bytes
    },
    decode: (bytes) => get(viewOf(expectSize(bytes, size))),
  }
}

function expectSize(bytes: Uint8Array, size: number): Uint8Array {
  if (bytes.length !== size) throw new DecodeError(`${bytes.length} bytes where ${size} were expected`)
  return bytes
}

// biome-ignore-start format: a table
export const u8 = integer(
  1,
  0,
  0xff,
  (v) => v.getUint8(0),
  (v, n) => v.setUint8(0, n),
)
export const u16 = integer(
  2,
  0,
  0xffff,
  (v) => v.getUint16(0, true),
  (v, n) => v.setUint16(0, n, true),
)
export const u16be = integer(
  2,
  0,
  0xffff,
  (v) => v.getUint16(0),
  (v, n) => v.setUint16(0, n),
)
export const u32 = integer(
  4,
  0,
  0xffffffff,
  (v) => v.getUint32(0, true),
  (v, n) => v.setUint32(0, n, true),
)
export const u32be = integer(
  4,
  0,
  0xffffffff,
  (v) => v.getUint32(0),
  (v, n) => v.setUint32(0, n),
)
export const i32 = integer(
  4,
  -0x80000000,
  0x7fffffff,
  (v) => v.getInt32(0, true),
  (v, n) => v.setInt32(0, n, true),
)
// biome-ignore-end format: a table

export const u64: IntegerCodec<bigint> = {
  size: 8,
  encode: (value) => new Uint8Array(new BigUint64Array([expectU64(value)]).buffer),
  decode: (bytes) => viewOf(expectSize(bytes, 8)).getBigUint64(0, true),
}

export const u64be: IntegerCodec<bigint> = {
  size: 8,
  encode(value) {
    const bytes = new Uint8Array(8)
    viewOf(bytes).setBigUint64(0, expectU64(value))
    return bytes
  },
  decode: (bytes) => viewOf(expectSize(bytes, 8)).getBigUint64(0),
}

function expectU64(value: bigint): bigint {
  if (BigInt.asUintN(64, value) !== value) throw new RangeError(`${value} does not fit: expected 0 to 2^64-1`)
  return value
}

/** Bytes as they are: addresses, hardware addresses, opaque data. */
export const bytes: Codec<Uint8Array> = { encode: (value) => value, decode: (found) => found.slice() }

/** UTF-8 text that ends in a NUL, as names are. */
export const text: Codec<string> = {
  encode(value) {
    if (value.includes("\0")) throw new RangeError(`${JSON.stringify(value)} holds a NUL byte`)
    return new TextEncoder().encode(`${value}\0`)
  },
  decode(found) {
    const end = found.indexOf(0)
    return new TextDecoder().decode(end === -1 ? found : found.subarray(0, end))
  },
}

/** An attribute that is there or not: `true`, without bytes. */
export const flag: Codec<true> = {
  encode: () => new Uint8Array(0),
  decode: () => true,
}

/** A hardware address as text, "0a:00:00:00:00:01": six bytes of Ethernet, or whatever the link has. */
export const mac: Codec<string> = {
  encode(value) {
    if (!/^([0-9a-f]{2}(:[0-9a-f]{2})*)?$/i.test(value)) throw new RangeError(`"${value}" is no hardware address`)
    const parts = value === "" ? [] : value.split(":")
    const found = new Uint8Array(parts.length)
    for (let at = 0; at < parts.length; at++) found[at] = Number.parseInt(parts[at] ?? "", 16)
    return found
  },
  decode(found) {
    let value = ""
    for (const byte of found) value += `${value === "" ? "" : ":"}${byte < 16 ? "0" : ""}${byte.toString(16)}`
    return value
  },
}

type StructFields = Record<string, IntegerCodec<number> | IntegerCodec<bigint>>
type StructValue<F extends StructFields> = { [K in keyof F]: Infer<F[K]> }

/** A C struct of integers without padding, in the order of its fields. All fields are there. */
export function struct<const F extends StructFields>(fields: F): Codec<StructValue<F>> & { readonly size: number } {
  const table: Record<string, IntegerCodec<unknown>> = fields
  let size = 0
  for (const name in table) size += table[name]?.size ?? 0
  return {
    size,
    encode(value) {
      const parts: Uint8Array[] = []
      for (const name in fields) parts.push((table[name] as IntegerCodec<unknown>).encode(value[name]))
      return concat(parts)
    },
    decode(found) {
      expectSize(found, size)
      const value: Record<string, unknown> = {}
      let at = 0
      for (const name in table) {
        const codec = table[name] as IntegerCodec<unknown>
        value[name] = codec.decode(found.subarray(at, at + codec.size))
        at += codec.size
      }
      return value as StructValue<F>
    },
  }
}

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  let length = 0
  for (const part of parts) length += part.length
  const whole = new Uint8Array(length)
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}
