import { bytes, type Codec, codec, DecodeError, type Infer } from "./codec.ts"
import { type Struct, type StructFields, u16 } from "./integers.ts"
import { encoded, type Output } from "./output.ts"

/** Bits of an attribute's type, <linux/netlink.h>. */
const NLA_F_NESTED = 0x8000
const NLA_TYPE_MASK = 0x3fff
const HEADER = 4
/** What fits behind a header, whose length has 16 bits. */
const MAX_BYTES = 0xffff - HEADER

/** An attribute that no table knows: kept, so that it can be sent back or looked at. */
export interface UnknownAttribute {
  type: number
  payload: Uint8Array
}

type AttributeFields = Record<string, readonly [type: number, codec: Codec<never> | Codec<unknown>]>
type AttributeValue<F extends AttributeFields> = { -readonly [K in keyof F]?: Infer<F[K][1]> | undefined } & {
  unknown?: UnknownAttribute[]
}

/** A table of attributes: encoder, decoder and type in one. Itself a codec, so that tables nest. */
export interface Attributes<F extends AttributeFields> extends Codec<AttributeValue<F>> {
  readonly nested: true
  readonly fields: F
}

/** One row of a table. */
interface Field {
  name: string
  type: number
  codec: Codec<unknown>
}

/**
 * A set of attributes, each with its kernel number and its codec. Absent is `undefined`; zero is a value and is sent.
 * They are written in the order of the value's keys, which some subsystems care about.
 *
 * @example
 * const vlanData = attrs({ id: [IFLA_VLAN_ID, u16], protocol: [IFLA_VLAN_PROTOCOL, u16be] })
 * vlanData.encode({ id: 101 })
 */
export function attrs<const F extends AttributeFields>(fields: F): Attributes<F> {
  const { byName, byType } = rowsOf(fields)
  const append = (value: AttributeValue<F>, to: Output) => {
    for (const name in value) {
      const item = value[name]
      if (item === undefined) continue
      const field = byName[name]
      if (field) appendAttribute(field.type, field.codec, item, to)
      else if (name === "unknown") appendUnknown(item as UnknownAttribute[], to)
      else throw new RangeError(`no attribute is called "${name}"`)
    }
  }
  const read = (from: Uint8Array, start: number, end: number) => {
    const value: Record<string, unknown> = {}
    let isWhole = true
    // Written out: a link has some hundred attributes, and a call for each length and type costs an ADD 3 % more instructions.
    for (let at = start, length = 0; at + HEADER <= end; at += (length + 3) & ~3) {
      length = (from[at] as number) | ((from[at + 1] as number) << 8)
      if (length < HEADER || at + length > end) throw wrongLength(at - start, length, end - at)
      const field = byType[((from[at + 2] as number) | ((from[at + 3] as number) << 8)) & NLA_TYPE_MASK]
      if (field) value[field.name] = field.codec.read(from, at + HEADER, at + length)
      else isWhole = false
    }
    if (!isWhole) keepUnknown(value, from.slice(start, end), byType)
    return value as AttributeValue<F>
  }
  return { ...codec(append, read), nested: true, fields }
}

type Rows = { byName: Readonly<Record<string, Field | undefined>>; byType: readonly (Field | undefined)[] }

function rowsOf(fields: AttributeFields): Rows {
  const rows = Object.entries(fields).map(([name, [type, codec]]) => ({ name, type, codec: codec as Codec<unknown> }))
  const byName = Object.assign(Object.create(null), Object.fromEntries(rows.map((row) => [row.name, row])))
  const byType = new Array<Field | undefined>(Math.max(0, ...rows.map(({ type }) => type + 1))).fill(undefined)
  for (const row of rows) byType[row.type] = row
  return { byName, byType }
}

/** Gives a value its `unknown`, taken apart when it is looked at: a link comes with dozens, of which few are ever read. */
function keepUnknown(value: object, found: Uint8Array, known: Rows["byType"]): void {
  const get = () => readAttributes(found).filter(({ type }) => !known[type])
  Object.defineProperty(value, "unknown", { get, enumerable: true, configurable: true })
}

/** A list in which every entry is an attribute of the same number, like `RTA_METRICS`' or set elements' lists. */
export function listOf<T>(type: number, entry: Codec<T>): Codec<T[]> {
  const append = (items: T[], to: Output) => {
    for (const item of items) appendAttribute(type, entry, item, to)
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

/** What follows a message's header: a C struct, and attributes behind it. */
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
  }
}

/** Adds one attribute to a message: length, type, what the codec writes, and zeros up to four bytes. */
export function appendAttribute<T>(type: number, { append, nested }: Codec<T>, value: T, to: Output): void {
  const start = to.end
  to.reserve(HEADER)
  to.end = start + HEADER
  append(value, to)
  const length = to.end - start
  if (length - HEADER > MAX_BYTES)
    throw new RangeError(`attribute ${type} has ${length - HEADER} bytes: at most ${MAX_BYTES} fit`)
  const room = to.reserve(3)
  const flagged = nested ? type | NLA_F_NESTED : type
  room[start] = length
  room[start + 1] = length >> 8
  room[start + 2] = flagged
  room[start + 3] = flagged >> 8
  while (to.end & 3) room[to.end++] = 0
}

function appendUnknown(attributes: readonly UnknownAttribute[], to: Output): void {
  for (const { type, payload } of attributes) appendAttribute(type, bytes, payload, to)
}

/** One attribute as bytes. */
export function attribute(type: number, payload: Uint8Array): Uint8Array {
  return encoded((value, to) => appendAttribute(type, bytes, value, to), payload)
}

/** Copies of the attributes in these bytes, flags taken off their types. Throws `DecodeError` when a length is wrong. */
export function readAttributes(from: Uint8Array): UnknownAttribute[] {
  const found: UnknownAttribute[] = []
  for (let at = 0, length = 0; at + HEADER <= from.length; at += align(length)) {
    length = lengthAt(from, at)
    found.push({ type: u16.get(from, at + 2) & NLA_TYPE_MASK, payload: from.slice(at + HEADER, at + length) })
  }
  return found
}

/** How many attributes are in these bytes: no copies are made. Throws `DecodeError` when a length is wrong. */
export function countAttributes(from: Uint8Array): number {
  let count = 0
  for (let at = 0; at + HEADER <= from.length; at += align(lengthAt(from, at))) count++
  return count
}

/** The length of the attribute at `at`, of attributes that stand from `start` to `end`. */
function lengthAt(from: Uint8Array, at: number, start = 0, end = from.length): number {
  const length = u16.get(from, at)
  if (length < HEADER || at + length > end) throw wrongLength(at - start, length, end - at)
  return length
}

function wrongLength(at: number, length: number, left: number): DecodeError {
  return new DecodeError(`attribute at byte ${at} says it has ${length} bytes of the ${left} left`)
}

/** Netlink aligns everything to four bytes. */
export function align(length: number): number {
  return Math.ceil(length / 4) * 4 // not by bits: a u32 from the wire would turn negative
}
