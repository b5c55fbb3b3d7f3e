import { bytes, type Codec, codec, DecodeError, type Infer } from "./codec.ts"
import { type Struct, type StructFields, u16 } from "./integers.ts"
import { encoded, type Output } from "./output.ts"

/** Bits of an attribute's type, <linux/netlink.h>. */
const NLA_F_NESTED = 0x8000
const NLA_TYPE_MASK = 0x3fff
/** The length of struct nlattr in bytes. */
export const HEADER = 4

/** An attribute whose type is not in the table. It is kept, so that a caller can inspect it or send it back. */
export interface UnknownAttribute {
  type: number
  payload: Uint8Array
}

type AttributeFields = Record<string, readonly [type: number, codec: Codec<never> | Codec<unknown>]>
type AttributeValue<F extends AttributeFields> = { -readonly [K in keyof F]?: Infer<F[K][1]> | undefined } & {
  unknown?: UnknownAttribute[]
}

/** A table of attributes: encoder, decoder and type in one, and a codec, so that an attribute may contain a table. */
export interface Attributes<F extends AttributeFields> extends Codec<AttributeValue<F>> {
  readonly nested: true
  readonly fields: F
}

interface Field {
  readonly name: string
  /** The number of the attribute, with `NLA_F_NESTED` for a nested one. */
  readonly type: number
  readonly codec: Codec<unknown>
  /** The length of an integer's attribute including its header; -1 for other types. */
  readonly length: number
  /** The codec's functions `get` and `read`, looked up once instead of for every attribute. */
  readonly get: (from: Uint8Array, at: number) => unknown
  readonly read: Codec<unknown>["read"]
}

function fieldOf(name: string, type: number, codec: Codec<unknown>): Field {
  const length = codec.get && codec.size !== undefined ? HEADER + codec.size : -1
  const { get = () => undefined, read } = codec
  return { name, type: codec.nested ? type | NLA_F_NESTED : type, codec, length, get, read }
}

/**
 * Returns the codec of a set of attributes, each with its kernel number and its codec. A property that is `undefined`
 * is not sent; zero is. Attributes are written in the order of the value's keys, because some kernel subsystems depend
 * on it. Without `keepsUnknown` decoding is faster, but drops attributes that the table does not contain.
 *
 * @example
 * const vlanData = attrs({ id: [IFLA_VLAN_ID, u16], protocol: [IFLA_VLAN_PROTOCOL, u16be] })
 * vlanData.encode({ id: 101 })
 */
export function attrs<const F extends AttributeFields>(fields: F, { keepsUnknown = true } = {}): Attributes<F> {
  const { byName, byType } = rowsOf(fields)
  const append = (value: AttributeValue<F>, to: Output) => {
    for (const name in value) {
      const item = value[name]
      if (item === undefined) continue
      const field = byName[name]
      if (field) appendField(field, item, to)
      else if (name === "unknown") appendUnknown(item as UnknownAttribute[], to)
      else throw new RangeError(`no attribute is called "${name}"`)
    }
  }
  const read = (from: Uint8Array, start: number, end: number) => {
    const value: Record<string, unknown> = {}
    let isWhole = true
    // Length and type are read inline. A link has about a hundred attributes, and a function call for each length and
    // type costs an ADD 3 % more instructions.
    for (let at = start, length = 0; at + HEADER <= end; at += (length + 3) & ~3) {
      length = (from[at] as number) | ((from[at + 1] as number) << 8)
      if (length < HEADER || at + length > end) throw wrongLength(at - start, length, end - at)
      const field = byType[((from[at + 2] as number) | ((from[at + 3] as number) << 8)) & NLA_TYPE_MASK]
      if (!field) isWhole = false
      else if (field.length === length) value[field.name] = field.get(from, at + HEADER)
      else value[field.name] = field.read(from, at + HEADER, at + length)
    }
    if (!isWhole && keepsUnknown) keepUnknown(value, from.slice(start, end), byType)
    return value as AttributeValue<F>
  }
  return { ...codec(append, read), nested: true, fields }
}

type Rows = { byName: Readonly<Record<string, Field | undefined>>; byType: readonly (Field | undefined)[] }

function rowsOf(fields: AttributeFields): Rows {
  const byName: Record<string, Field> = Object.create(null)
  const types = Object.values(fields).map(([type]) => type)
  // Filled, because a lookup in an array with holes is slow.
  const byType = new Array<Field | undefined>(Math.max(0, ...types) + 1).fill(undefined)
  for (const [name, [type, codec]] of Object.entries(fields)) {
    const field = fieldOf(name, type, codec as Codec<unknown>)
    byName[name] = field
    byType[type] = field
  }
  return { byName, byType }
}

/**
 * Adds the property `unknown` to a value. The property is parsed at the first read: a link has dozens of unknown
 * attributes, and few are ever read. The getter does not refer to the value, because an engine that counts references
 * would never free the cycle.
 */
function keepUnknown(value: object, found: Uint8Array, known: Rows["byType"]): void {
  let unknown: UnknownAttribute[] | undefined
  const get = () => {
    unknown ??= readAttributes(found, (type) => !known[type])
    return unknown
  }
  Object.defineProperty(value, "unknown", { get, enumerable: true, configurable: true })
}

/** Returns the codec of a list of attributes with one type, such as `RTA_METRICS` or the elements of a set. */
export function listOf<T>(type: number, entry: Codec<T>): Codec<T[]> {
  const field = fieldOf("", type, entry as Codec<unknown>)
  const append = (items: T[], to: Output) => {
    for (const item of items) appendField(field, item, to)
  }
  const read = (from: Uint8Array, start: number, end: number) => {
    const items: T[] = []
    for (let at = start, length = 0; at + HEADER <= end; at += align(length)) {
      length = lengthAt(from, at, start, end)
      items.push(entry.read(from, at + HEADER, at + length))
    }
    return items
  }
  return { ...codec(append, read), nested: true }
}

/** Returns the codec of a message's payload: a C struct, then attributes. */
export function payloadOf<H extends StructFields, A extends AttributeFields>(
  header: Struct<H>,
  attributes: Attributes<A>,
) {
  type Head = Parameters<typeof header.encode>[0]
  type Values = Infer<typeof attributes>
  return {
    encode: (head: Head, values?: Values) =>
      encoded((given, to) => {
        header.append(head, to)
        if (given) attributes.append(given, to)
      }, values),
    decode: (bytes: Uint8Array) => ({
      header: header.read(bytes, 0, Math.min(header.size, bytes.length)),
      attributes: attributes.read(bytes, header.size, bytes.length),
    }),
    /** Returns only the attributes. The caller reads the fields of the struct before them at `offsets`. */
    decodeAttributes: (bytes: Uint8Array): Values => {
      if (bytes.length < header.size) header.decode(bytes) // throws
      return attributes.read(bytes, header.size, bytes.length) as Values
    },
  }
}

/** Appends one attribute: length, type, encoded value, and zeros up to a multiple of four bytes. */
export function appendAttribute<T>(type: number, codec: Codec<T>, value: T, to: Output): void {
  appendField(fieldOf("", type, codec as Codec<unknown>), value, to)
}

function appendField({ type, codec, length: fixed }: Field, value: unknown, to: Output): void {
  const start = to.end
  let room = to.reserve(HEADER + 8) // enough for any integer
  let length = fixed
  if (fixed > 0) {
    codec.put?.(value, room, start + HEADER)
    to.end = start + fixed
  } else {
    to.end = start + HEADER
    codec.append(value, to)
    room = to.room
    length = to.end - start
    if (length > 0xffff) throw tooLong(type, length)
  }
  room[start] = length
  room[start + 1] = length >> 8
  room[start + 2] = type
  room[start + 3] = type >> 8
  if (length & 3) to.align()
}

function tooLong(type: number, length: number): RangeError {
  const most = 0xffff - HEADER // the length field has 16 bits
  return new RangeError(`attribute ${type & NLA_TYPE_MASK} has ${length - HEADER} bytes: at most ${most} fit`)
}

function appendUnknown(attributes: readonly UnknownAttribute[], to: Output): void {
  for (const { type, payload } of attributes) appendAttribute(type, bytes, payload, to)
}

/** Returns one attribute as bytes. */
export function attribute(type: number, payload: Uint8Array): Uint8Array {
  return encoded((value, to) => appendAttribute(type, bytes, value, to), payload)
}

/**
 * Returns copies of the attributes for whose type `isWanted` returns true. The flags are removed from the types. Throws
 * `DecodeError` for a wrong length.
 */
export function readAttributes(from: Uint8Array, isWanted: (type: number) => boolean = () => true): UnknownAttribute[] {
  const found: UnknownAttribute[] = []
  for (let at = 0, length = 0; at + HEADER <= from.length; at += (length + 3) & ~3) {
    length = lengthAt(from, at)
    const type = typeAt(from, at)
    if (isWanted(type)) found.push({ type, payload: from.slice(at + HEADER, at + length) })
  }
  return found
}

/**
 * Calls `visit` with the start and end of each attribute's payload until `visit` returns true. Returns the number of
 * calls. Throws `DecodeError` for a wrong length.
 */
export function forEachAttribute(from: Uint8Array, visit: (start: number, end: number) => boolean): number {
  let count = 0
  for (let at = 0, length = 0; at + HEADER <= from.length; at += (length + 3) & ~3) {
    // Read inline, because a list may have thousands of attributes.
    length = (from[at] as number) | ((from[at + 1] as number) << 8)
    if (length < HEADER || at + length > from.length) throw wrongLength(at, length, from.length - at)
    count++
    if (visit(at + HEADER, at + length)) break
  }
  return count
}

/** Returns the type of the attribute at offset `at`, without its flags. */
export function typeAt(from: Uint8Array, at: number): number {
  return u16.get(from, at + 2) & NLA_TYPE_MASK
}

/** Returns the length of the attribute at offset `at`, in a list of attributes from `start` to `end`. */
export function lengthAt(from: Uint8Array, at: number, start = 0, end = from.length): number {
  const length = u16.get(from, at)
  if (length < HEADER || at + length > end) throw wrongLength(at - start, length, end - at)
  return length
}

function wrongLength(at: number, length: number, left: number): DecodeError {
  return new DecodeError(`the attribute at byte ${at} has length ${length}, but only ${left} bytes are left`)
}

/** Returns the length rounded up to a multiple of four bytes, the alignment of netlink. */
export function align(length: number): number {
  return Math.ceil(length / 4) * 4 // no bit operations: they would turn a large u32 from the wire negative
}
