import { decodeUtf8, encodeUtf8 } from "../engine/mod.ts"
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
  /** Where the size is fixed: the value of the bytes that begin at `at`. Those beyond the end count as zeros. */
  get?(from: Uint8Array, at: number): T
  /** Likewise: puts the value's bytes into others. Throws `RangeError` for a value that does not fit. */
  put?(value: T, into: Uint8Array, at: number): void
  /** An attribute with attributes inside, which carries `NLA_F_NESTED`. */
  readonly nested?: true
}

/** The type that a codec, or a table of attributes, stands for. */
export type Infer<C> = C extends Codec<infer T> ? T : never

/** Bytes that are not what the format says. */
export class DecodeError extends Error {
  override readonly name = "DecodeError"
}

/** A codec of a fixed size, which also works on bytes in the midst of others: fields of structs, lengths in headers. */
interface IntegerCodec<T> extends Codec<T> {
  readonly size: number
  put(value: T, into: Uint8Array, at: number): void
  get(from: Uint8Array, at: number): T
}

function fixed<T>(size: number, put: IntegerCodec<T>["put"], get: IntegerCodec<T>["get"]): IntegerCodec<T> {
  return {
    size,
    put,
    get,
    encode(value) {
      const bytes = new Uint8Array(size)
      put(value, bytes, 0)
      return bytes
    },
    decode: (bytes) => get(expectSize(bytes, size), 0),
  }
}

function expectSize(bytes: Uint8Array, size: number): Uint8Array {
  if (bytes.length !== size) throw new DecodeError(`${bytes.length} bytes where ${size} were expected`)
  return bytes
}

type Get = IntegerCodec<number>["get"]
type Put = IntegerCodec<number>["put"]

// Each size by itself: a loop over the bytes costs an ADD 3 % more instructions.
const little: Readonly<Record<number, readonly [Get, Put]>> = {
  1: [
    (from, at) => from[at] ?? 0,
    (value, into, at) => {
      into[at] = value
    },
  ],
  2: [
    (from, at) => (from[at] ?? 0) | ((from[at + 1] ?? 0) << 8),
    (value, into, at) => {
      into[at] = value
      into[at + 1] = value >> 8
    },
  ],
  4: [
    (from, at) =>
      ((from[at] ?? 0) | ((from[at + 1] ?? 0) << 8) | ((from[at + 2] ?? 0) << 16) | ((from[at + 3] ?? 0) << 24)) >>> 0,
    (value, into, at) => {
      into[at] = value
      into[at + 1] = value >> 8
      into[at + 2] = value >> 16
      into[at + 3] = value >> 24
    },
  ],
}
const big: Readonly<Record<number, readonly [Get, Put]>> = {
  2: [
    (from, at) => ((from[at] ?? 0) << 8) | (from[at + 1] ?? 0),
    (value, into, at) => {
      into[at] = value >> 8
      into[at + 1] = value
    },
  ],
  4: [
    (from, at) =>
      (((from[at] ?? 0) << 24) | ((from[at + 1] ?? 0) << 16) | ((from[at + 2] ?? 0) << 8) | (from[at + 3] ?? 0)) >>> 0,
    (value, into, at) => {
      into[at] = value >> 24
      into[at + 1] = value >> 16
      into[at + 2] = value >> 8
      into[at + 3] = value
    },
  ],
}

function integer(size: 1 | 2 | 4, isBig = false, min = 0): IntegerCodec<number> {
  const max = min + 256 ** size - 1
  const [get, put] = (isBig ? big : little)[size] as readonly [Get, Put]
  return fixed(
    size,
    (value, into, at) => {
      if (!(value >= min && value <= max && value % 1 === 0)) {
        throw new RangeError(`${value} does not fit: expected ${min} to ${max}`)
      }
      put(value, into, at)
    },
    min < 0 ? (from, at) => get(from, at) | 0 : get,
  )
}

export const u8 = integer(1)
export const u16 = integer(2)
export const u16be = integer(2, true)
export const u32 = integer(4)
export const u32be = integer(4, true)
export const i32 = integer(4, false, -0x80000000)

function long(half: IntegerCodec<number>, highAt: number): IntegerCodec<bigint> {
  return fixed(
    8,
    (value, into, at) => {
      if (BigInt.asUintN(64, value) !== value) throw new RangeError(`${value} does not fit: expected 0 to 2^64-1`)
      half.put(Number(value >> 32n), into, at + highAt)
      half.put(Number(value & 0xffffffffn), into, at + 4 - highAt)
    },
    (from, at) => (BigInt(half.get(from, at + highAt)) << 32n) | BigInt(half.get(from, at + 4 - highAt)),
  )
}

export const u64 = long(u32, 4)
export const u64be = long(u32be, 0)

/** Bytes as they are: addresses, hardware addresses, opaque data. */
export const bytes: Codec<Uint8Array> = { encode: (value) => value, decode: (found) => found.slice() }

/** UTF-8 text that ends in a NUL, as names are. */
export const text: Codec<string> = {
  encode(value) {
    if (value.includes("\0")) throw new RangeError(`${JSON.stringify(value)} holds a NUL byte`)
    return encodeUtf8(`${value}\0`)
  },
  decode(found) {
    const end = found.indexOf(0)
    return decodeUtf8(end === -1 ? found : found.subarray(0, end))
  },
}

/** An attribute that is there or not: `true`, without bytes. */
export const flag: Codec<true> = {
  encode: () => new Uint8Array(0),
  decode: () => true,
}

/** A hardware address as text, "0a:00:00:00:00:01": six bytes of Ethernet, or as many as the link has. */
export const mac: Codec<string> = {
  encode(value) {
    const parts = value === "" ? [] : value.split(":")
    const found = new Uint8Array(parts.length)
    for (let at = 0; at < parts.length; at++) found[at] = Number.parseInt(parts[at] ?? "", 16)
    if (mac.decode(found) !== value.toLowerCase()) throw new RangeError(`"${value}" is no hardware address`)
    return found
  },
  decode(found) {
    let value = ""
    for (let at = 0; at < found.length; at++) {
      const byte = found[at] ?? 0
      value += `${at === 0 ? "" : ":"}${byte < 16 ? "0" : ""}${byte.toString(16)}`
    }
    return value
  },
}

export type StructFields = Record<string, IntegerCodec<number> | IntegerCodec<bigint>>
type StructValue<F extends StructFields> = { [K in keyof F]: Infer<F[K]> }

/** A struct as a codec. What is left out of a value is 0. */
export interface Struct<F extends StructFields> extends Codec<StructValue<F>> {
  readonly size: number
  encode(value: { [K in keyof F]?: Infer<F[K]> | undefined }): Uint8Array
}

/** A C struct of integers without padding, in the order of its fields. */
export function struct<const F extends StructFields>(fields: F): Struct<F> {
  const table: Record<string, IntegerCodec<unknown>> = fields
  let size = 0
  const layout: { name: string; at: number; put: IntegerCodec<unknown>["put"]; get: IntegerCodec<unknown>["get"] }[] =
    []
  for (const name in table) {
    const { size: fieldSize, put, get } = table[name] as IntegerCodec<unknown>
    layout.push({ name, at: size, put, get })
    size += fieldSize
  }
  return {
    size,
    encode(value) {
      const bytes = new Uint8Array(size)
      for (const { name, at, put } of layout) {
        const field = value[name]
        if (field !== undefined) put(field, bytes, at)
      }
      return bytes
    },
    decode(found) {
      expectSize(found, size)
      const value: Record<string, unknown> = {}
      for (const { name, at, get } of layout) value[name] = get(found, at)
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
