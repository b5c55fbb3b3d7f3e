import { encodeUtf8 } from "../../../pkg/engine/mod.ts"

/**
 * A type of encoding/gob, as far as net/rpc and the peers of this plugin use them: structs, lists, numbers, texts,
 * bytes. A sender chooses a number for each type, and defines the type before its first value. A definition is itself a
 * value of the type `wireType`, which both sides know.
 *
 * @example
 * const request = struct("Request", { ServiceMethod: text, Seq: unsigned })
 */
export type GobType = Numbered | Struct | Slice

/** A type with a number: a predefined type, or one that the sender has defined. */
interface Numbered {
  readonly id: number
}

export interface Struct {
  readonly name: string
  readonly fields: readonly { readonly name: string; readonly type: GobType }[]
}

export interface Slice {
  readonly name: string
  readonly element: GobType
}

/** A value. A struct is an object without its zero fields, because gob does not send them. */
export type GobValue = boolean | number | string | Uint8Array | readonly GobValue[] | GobObject

export interface GobObject {
  readonly [field: string]: GobValue | undefined
}

export const boolean: Numbered = { id: 1 }
export const signed: Numbered = { id: 2 }
export const unsigned: Numbered = { id: 3 }
export const octets: Numbered = { id: 5 }
export const text: Numbered = { id: 6 }

export function struct(name: string, fields: { readonly [name: string]: GobType }): Struct {
  return { name, fields: Object.entries(fields).map(([name, type]) => ({ name, type })) }
}

/** Returns the type of a list. `name` is its Go type, "[]string". */
export function slice(name: string, element: GobType): Slice {
  return { name, element }
}

/** The common fields of a type's definition, from encoding/gob/type.go. There is no array type: no peer uses one. */
const common = struct("CommonType", { Name: text, Id: signed })
export const wireType = struct("wireType", {
  ArrayT: common,
  SliceT: struct("sliceType", { CommonType: common, Elem: signed }),
  StructT: struct("structType", { CommonType: common, Field: slice("[]fieldType", common) }),
})

/** The first number of a sender's own types, as in Go programs. */
const FIRST_TYPE = 65

/** The error for a stream of another protocol, or with a type that this codec does not support. */
export class GobError extends Error {
  override readonly name = "GobError"
}

export function isGobObject(value: GobValue | undefined): value is GobObject {
  return typeof value === "object" && !Array.isArray(value) && !(value instanceof Uint8Array)
}

/** The output of the encoder: single bytes, and byte arrays that are copied once. */
type Bytes = (number | Uint8Array)[]

export interface Definition {
  readonly type: Struct
  readonly id: number
  /** The messages that define the type and its component types, without those that were already defined. */
  readonly messages: Uint8Array
}

/**
 * Numbers the types that one side of a connection sends, in the order of their first use like Go, and encodes their
 * definitions. If the result is a module constant, it is part of the heap image, and a call encodes only its values.
 */
export function defineTypes(...types: readonly Struct[]): readonly Definition[] {
  const ids = new Map<GobType, number>()
  const defined = new Set<GobType>()
  /** Numbers a type. A struct gets its number before its fields, a list after its elements. */
  const number = (type: GobType): number => {
    if ("id" in type) return type.id
    const known = ids.get(type)
    if (known !== undefined) return known
    if ("element" in type) number(type.element)
    const id = FIRST_TYPE + ids.size
    ids.set(type, id)
    if ("fields" in type) for (const field of type.fields) number(field.type)
    return id
  }
  const define = (type: GobType, out: Bytes): void => {
    if ("id" in type || defined.has(type)) return
    defined.add(type)
    const id = number(type)
    const CommonType = { Name: type.name, Id: id }
    if ("element" in type) {
      putMessage(out, -id, wireType, { SliceT: { CommonType, Elem: number(type.element) } })
      define(type.element, out)
      return
    }
    const Field = type.fields.map((field) => ({ Name: field.name, Id: number(field.type) }))
    putMessage(out, -id, wireType, { StructT: { CommonType, Field } })
    for (const field of type.fields) define(field.type, out)
  }
  return types.map((type) => {
    const id = number(type)
    const messages: Bytes = []
    define(type, messages)
    return { type, id, messages: joined(messages) }
  })
}

/** An encoder for one direction of a connection. It writes a type's definition before the first value of the type. */
export class GobEncoder {
  readonly #definitions: readonly Definition[]
  #written = 0

  constructor(definitions: readonly Definition[]) {
    this.#definitions = definitions
  }

  /** Returns the messages for a value. They begin with the definitions of types that were not sent yet. */
  encode(type: Struct, value: GobObject): Uint8Array {
    const at = this.#definitions.findIndex((each) => each.type === type)
    const definition = this.#definitions[at]
    if (!definition) throw new TypeError(`Cannot encode a value of type "${type.name}": it is not defined`)
    const out: Bytes = this.#definitions.slice(this.#written, at + 1).map(({ messages }) => messages)
    this.#written = Math.max(this.#written, at + 1)
    putMessage(out, definition.id, type, value)
    return joined(out)
  }
}

function putMessage(out: Bytes, id: number, type: Struct, value: GobObject): void {
  const body: Bytes = []
  putSigned(body, id)
  putValue(body, type, value)
  putUnsigned(out, sizeOf(body))
  for (const part of body) out.push(part)
}

function putValue(out: Bytes, type: GobType, value: GobValue): void {
  if (type === text && typeof value === "string") putBytes(out, encodeUtf8(value))
  else if (type === octets && value instanceof Uint8Array) putBytes(out, value)
  else if (type === signed && typeof value === "number") putSigned(out, value)
  else if (type === unsigned && typeof value === "number") putUnsigned(out, value)
  else if ("element" in type && Array.isArray(value)) {
    putUnsigned(out, value.length)
    for (const element of value) putValue(out, type.element, element)
  } else if ("fields" in type && isGobObject(value)) {
    let last = -1
    for (let at = 0; at < type.fields.length; at++) {
      const { name, type: inner } = type.fields[at] as Struct["fields"][number]
      const field = value[name]
      if (field === undefined || field === 0 || (!isGobObject(field) && Object(field).length === 0)) continue
      putUnsigned(out, at - last)
      putValue(out, inner, field)
      last = at
    }
    out.push(0)
  } else throw new TypeError(`Cannot encode ${JSON.stringify(value)} as ${JSON.stringify(type)}`)
}

/** Encodes up to 53 bits: below 128 as one byte, others as the negated count of bytes and the bytes, highest first. */
function putUnsigned(out: Bytes, value: number): void {
  if (value < 0x80) {
    out.push(value)
    return
  }
  const bytes: number[] = []
  for (let rest = value; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256)
  out.push(256 - bytes.length, ...bytes)
}

function putSigned(out: Bytes, value: number): void {
  putUnsigned(out, value < 0 ? (-value - 1) * 2 + 1 : value * 2)
}

function putBytes(out: Bytes, bytes: Uint8Array): void {
  putUnsigned(out, bytes.length)
  if (bytes.length > 0) out.push(bytes)
}

function sizeOf(parts: Bytes): number {
  let size = 0
  for (const part of parts) size += typeof part === "number" ? 1 : part.length
  return size
}

function joined(parts: Bytes): Uint8Array {
  const all = new Uint8Array(sizeOf(parts))
  let at = 0
  for (const part of parts) {
    if (typeof part === "number") all[at++] = part
    else {
      all.set(part, at)
      at += part.length
    }
  }
  return all
}
