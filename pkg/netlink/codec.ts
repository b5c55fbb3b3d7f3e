import { decodeUtf8, encodeUtf8 } from "../engine/mod.ts"
import { encoded, type Output } from "./output.ts"

/**
 * Encodes and decodes one value in a netlink attribute or a C struct. The codec's name gives the byte order of
 * integers. A plain `u32` has the machine's order, which is little endian on every supported machine.
 */
export interface Codec<T> extends WholeCodec<T> {
  /** Appends the value's bytes to a message. Throws `RangeError` for a value that does not fit. */
  append(value: T, to: Output): void
  /** Returns the value encoded in the bytes from `start` to `end`. Throws `DecodeError` if their length is wrong. */
  read(from: Uint8Array, start: number, end: number): T
  /** The size in bytes, for a codec of fixed size. Only such a codec can be a field of a `struct`. */
  readonly size?: number
  /** Returns the integer at offset `at`; only for codecs of integers. Bytes beyond the end count as zeros. */
  get?(from: Uint8Array, at: number): T
  /** Writes the integer at offset `at`; only for codecs of integers. Throws `RangeError` if it does not fit. */
  put?(value: T, into: Uint8Array, at: number): void
  /** The attribute contains attributes, so its type carries `NLA_F_NESTED`. */
  readonly nested?: true
}

/** A codec of a whole byte array. */
export interface WholeCodec<T> {
  /** Returns the value's bytes. Throws `RangeError` for a value that does not fit. */
  encode(value: T): Uint8Array
  /** Returns the value that the bytes encode. Throws `DecodeError` if their length is wrong. */
  decode(bytes: Uint8Array): T
}

/** The type of the values of a codec or an attribute table. */
export type Infer<C> = C extends WholeCodec<infer T> ? T : never

/** The error for bytes that do not have the expected format. */
export class DecodeError extends Error {
  override readonly name = "DecodeError"
}

/** Returns a codec that encodes by `append` and decodes by `read`. */
export function codec<T>(append: Codec<T>["append"], read: Codec<T>["read"]): Codec<T> {
  return {
    append,
    read,
    encode: (value) => encoded(append, value),
    decode: (found) => read(found, 0, found.length),
  }
}

/** Returns a codec of the same bytes for an attribute with `NLA_F_NESTED`. */
export function nested<T>(inner: Codec<T>): Codec<T> & { readonly nested: true } {
  return { ...inner, nested: true }
}

/** Bytes that are not interpreted: IP addresses, hardware addresses, opaque data. */
export const bytes: Codec<Uint8Array> = codec(
  (value, to) => to.add(value),
  (from, start, end) => from.slice(start, end),
)

/** UTF-8 text with a trailing NUL, such as a name. */
export const text: Codec<string> = codec(
  (value, to) => {
    if (value.includes("\0")) throw new RangeError(`${JSON.stringify(value)} holds a NUL byte`)
    to.add(encodeUtf8(`${value}\0`))
  },
  (from, start, end) => {
    const nul = from.indexOf(0, start)
    return decodeUtf8(from.subarray(start, nul === -1 || nul > end ? end : nul))
  },
)

/** 0xdc00 + B, a lone low surrogate, stands for byte B of 0x80 or more. Valid UTF-8 contains no lone surrogate. */
const ESCAPED_BYTE = 0xdc00

/**
 * The name of a link. A container may choose any bytes for it. In a name that is not valid UTF-8, each byte of 0x80 or
 * more becomes a lone surrogate, such as U+DCFF for 0xff. Encoding returns the original bytes.
 */
export const nameText: Codec<string> = codec(
  (value, to) => {
    const start = to.end
    text.append(value, to)
    if (to.end - start === value.length + 1) return // ASCII
    const units = Array.from(value, (character) => character.charCodeAt(0))
    const isEscaped = (unit: number) => unit > ESCAPED_BYTE + 0x7f && unit <= ESCAPED_BYTE + 0xff
    if (!units.some(isEscaped) || !units.every((unit) => unit < 0x80 || isEscaped(unit))) return
    to.end = start
    to.add(Uint8Array.from([...units, 0], (unit) => unit & 0xff))
  },
  (from, start, end) => {
    const name = text.read(from, start, end)
    if (!name.includes("\ufffd")) return name
    const raw = [...from.subarray(start, end)]
    if (raw.includes(0)) raw.length = raw.indexOf(0)
    const encoded = encodeUtf8(name)
    // Equal bytes mean that the name itself contains the replacement character.
    if (encoded.length === raw.length && raw.every((byte, at) => byte === encoded[at])) return name
    return raw.map((byte) => String.fromCharCode(byte < 0x80 ? byte : ESCAPED_BYTE + byte)).join("")
  },
)

/** An attribute without payload: `true` if it is present. */
export const flag: Codec<true> = codec(
  () => {},
  () => true,
)

const hexBytes: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"))

/** A hardware address as text, "0a:00:00:00:00:01" for Ethernet. Other types of links have other lengths. */
export const mac: Codec<string> = codec(
  (value, to) => {
    const parts = value === "" ? [] : value.split(":")
    const start = to.end
    for (const part of parts) to.reserve(1)[to.end++] = Number.parseInt(part, 16)
    if (mac.read(to.room, start, to.end) !== value.toLowerCase())
      throw new RangeError(`"${value}" is not a hardware address`)
  },
  (from, start, end) => {
    const hex = (at: number) => hexBytes[from[start + at] ?? 0]
    if (end - start === 6) return `${hex(0)}:${hex(1)}:${hex(2)}:${hex(3)}:${hex(4)}:${hex(5)}`
    return Array.from({ length: end - start }, (_, at) => hex(at)).join(":")
  },
)

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
