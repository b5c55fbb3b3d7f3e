import { type Codec, concat, DecodeError, type Infer, type Struct, type StructFields } from "./codec.ts"

/** Bits of an attribute's type, <linux/netlink.h>. */
const NLA_F_NESTED = 0x8000
const NLA_TYPE_MASK = 0x3fff
const HEADER = 4

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

/**
 * A set of attributes, each with its kernel number and its codec. Absent is `undefined`; zero is a value and is sent.
 * They are written in the order of the value's keys, which some subsystems care about.
 *
 * @example
 * const vlanData = attrs({ id: [IFLA_VLAN_ID, u16], protocol: [IFLA_VLAN_PROTOCOL, u16be] })
 * vlanData.encode({ id: 101 })
 */
export function attrs<const F extends AttributeFields>(fields: F): Attributes<F> {
  const byNumber = numbered(fields)
  return {
    nested: true,
    fields,
    encode(value) {
      const parts: Uint8Array[] = []
      for (const name in value) {
        const item = value[name]
        if (item === undefined) continue
        if (name === "unknown") {
          for (const { type, payload } of item as UnknownAttribute[]) parts.push(attribute(type, payload))
          continue
        }
        const field = fields[name]
        if (!field) throw new RangeError(`no attribute is called "${name}"`)
        const [type, codec] = field as readonly [number, Codec<unknown>]
        if (codec.put && codec.size !== undefined) {
          const bytes = blank(type, codec.size) // most are integers: one array for each
          codec.put(item, bytes, HEADER)
          parts.push(bytes)
        } else parts.push(attribute(codec.nested ? type | NLA_F_NESTED : type, codec.encode(item)))
      }
      return concat(parts)
    },
    decode(found) {
      const value: Record<string, unknown> = {}
      let isWhole = true
      const end = found.length
      // Written out: a link has some hundred attributes, and a call for each length and type costs an ADD 3 % more instructions.
      for (let at = 0, length = 0; at + HEADER <= end; at += (length + 3) & ~3) {
        length = (found[at] ?? 0) | ((found[at + 1] ?? 0) << 8)
        if (length < HEADER || at + length > end) lengthAt(found, at) // throws
        const field = byNumber.get(((found[at + 2] ?? 0) | ((found[at + 3] ?? 0) << 8)) & NLA_TYPE_MASK)
        if (!field) isWhole = false
        else if (field.codec.get && field.codec.size === length - HEADER) {
          value[field.name] = field.codec.get(found, at + HEADER) // most are integers: no copy for each
        } else value[field.name] = field.codec.decode(found.subarray(at + HEADER, at + length))
      }
      if (!isWhole) keepUnknown(value, found.slice(), byNumber)
      return value as AttributeValue<F>
    },
  }
}

/** Gives a value its `unknown`, taken apart when it is looked at: a link comes with dozens, of which few are ever read. */
function keepUnknown(value: object, found: Uint8Array, known: ReadonlyMap<number, unknown>): void {
  const get = () => readAttributes(found).filter(({ type }) => !known.has(type))
  Object.defineProperty(value, "unknown", { get, enumerable: true, configurable: true })
}

function numbered(fields: AttributeFields): Map<number, { name: string; codec: Codec<unknown> }> {
  const byNumber = new Map<number, { name: string; codec: Codec<unknown> }>()
  for (const name in fields) {
    const [type, codec] = fields[name] as readonly [number, Codec<unknown>]
    byNumber.set(type, { name, codec })
  }
  return byNumber
}

/** A list in which every entry is an attribute of the same number, like `RTA_METRICS`' or set elements' lists. */
export function listOf<T>(type: number, codec: Codec<T>): Codec<T[]> {
  return {
    nested: true,
    encode(items) {
      const parts: Uint8Array[] = []
      for (const item of items) parts.push(attribute(codec.nested ? type | NLA_F_NESTED : type, codec.encode(item)))
      return concat(parts)
    },
    decode(found) {
      const items: T[] = []
      for (const { payload } of readAttributes(found)) items.push(codec.decode(payload))
      return items
    },
  }
}

/** What follows a message's header: a C struct, and attributes behind it. */
export function payloadOf<H extends StructFields, A extends AttributeFields>(
  header: Struct<H>,
  attributes: Attributes<A>,
) {
  return {
    encode: (head: Parameters<typeof header.encode>[0], values: Infer<typeof attributes> = {}) =>
      concat([header.encode(head), attributes.encode(values)]),
    decode: (bytes: Uint8Array) => ({
      header: header.decode(bytes.subarray(0, header.size)),
      attributes: attributes.decode(bytes.subarray(header.size)),
    }),
  }
}

/** One attribute: length, type, payload, padded with zeros to four bytes. */
export function attribute(type: number, payload: Uint8Array): Uint8Array {
  const bytes = blank(type, payload.length)
  bytes.set(payload, HEADER)
  return bytes
}

/** An attribute with room for so many bytes of payload. */
function blank(type: number, size: number): Uint8Array {
  const length = HEADER + size
  if (length > 0xffff) throw new RangeError(`attribute ${type} has ${size} bytes: at most 65531 fit`)
  const bytes = new Uint8Array((length + 3) & ~3)
  bytes[0] = length
  bytes[1] = length >> 8
  bytes[2] = type
  bytes[3] = type >> 8
  return bytes
}

/** Copies of the attributes in these bytes, flags taken off their types. Throws `DecodeError` when a length is wrong. */
export function readAttributes(bytes: Uint8Array): UnknownAttribute[] {
  const found: UnknownAttribute[] = []
  for (let at = 0, length = 0; at + HEADER <= bytes.length; at += align(length)) {
    length = lengthAt(bytes, at)
    found.push({ type: typeAt(bytes, at), payload: bytes.slice(at + HEADER, at + length) })
  }
  return found
}

/** How many attributes are in these bytes: no copies are made. Throws `DecodeError` when a length is wrong. */
export function countAttributes(bytes: Uint8Array): number {
  let count = 0
  for (let at = 0; at + HEADER <= bytes.length; at += align(lengthAt(bytes, at))) count++
  return count
}

function typeAt(bytes: Uint8Array, at: number): number {
  return ((bytes[at + 2] ?? 0) | ((bytes[at + 3] ?? 0) << 8)) & NLA_TYPE_MASK
}

function lengthAt(bytes: Uint8Array, at: number): number {
  const length = (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8)
  if (length >= HEADER && at + length <= bytes.length) return length
  throw new DecodeError(`attribute at byte ${at} says it has ${length} bytes of the ${bytes.length - at} left`)
}

/** Netlink aligns everything to four bytes. */
export function align(length: number): number {
  return Math.ceil(length / 4) * 4 // not by bits: a u32 from the wire would turn negative
}
