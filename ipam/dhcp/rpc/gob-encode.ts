import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import {
  FIRST_TYPE,
  type GobObject,
  type GobType,
  type GobValue,
  isGobObject,
  octets,
  type Slice,
  type Struct,
  signed,
  text,
  unsigned,
} from "./gob-types.ts"

/** The kinds of a type's definition by the number of their field in Go's `wireType`. */
const SLICE_KIND = 1
const STRUCT_KIND = 2

/**
 * Writes values as encoding/gob does, for one direction of one connection: each type is defined before its first value, and
 * only once.
 */
export class GobEncoder {
  readonly #ids = new Map<Struct | Slice, number>()
  readonly #defined = new Set<Struct | Slice>()

  /** The messages for a value of a struct: definitions as far as they are new, then the value. */
  encode(type: Struct, value: GobObject): Uint8Array {
    this.#number(type)
    const out: number[] = []
    this.#define(type, out)
    const body: number[] = []
    putSigned(body, this.#number(type))
    putStruct(body, type, value)
    putMessage(out, body)
    return Uint8Array.from(out)
  }

  /** The number of a type, given in the order in which Go gives them: a struct before its fields, a list after its elements. */
  #number(type: GobType): number {
    if (type.kind === "basic") return type.id
    const known = this.#ids.get(type)
    if (known !== undefined) return known
    if (type.kind === "slice") {
      this.#number(type.element)
      return this.#give(type)
    }
    const id = this.#give(type)
    for (const field of Object.values(type.fields)) this.#number(field)
    return id
  }

  #give(type: Struct | Slice): number {
    const id = FIRST_TYPE + this.#ids.size
    this.#ids.set(type, id)
    return id
  }

  #define(type: GobType, out: number[]): void {
    if (type.kind === "basic" || this.#defined.has(type)) return
    this.#defined.add(type)
    const id = this.#number(type)
    const body: number[] = []
    putSigned(body, -id)
    putUnsigned(body, (type.kind === "slice" ? SLICE_KIND : STRUCT_KIND) + 1)
    putUnsigned(body, 1) // the common part, of which an empty name is left out
    if (type.name !== "") {
      putUnsigned(body, 1)
      putText(body, type.name)
    }
    putUnsigned(body, type.name === "" ? 2 : 1)
    putSigned(body, id)
    body.push(0)
    const inner: GobType[] = []
    if (type.kind === "slice") {
      putUnsigned(body, 1)
      putSigned(body, this.#number(type.element))
      inner.push(type.element)
    } else if (Object.keys(type.fields).length > 0) {
      const fields = Object.entries(type.fields)
      putUnsigned(body, 1)
      putUnsigned(body, fields.length)
      for (const [name, field] of fields) {
        putUnsigned(body, 1)
        putText(body, name)
        putUnsigned(body, 1)
        putSigned(body, this.#number(field))
        body.push(0)
        inner.push(field)
      }
    }
    body.push(0, 0)
    putMessage(out, body)
    for (const each of inner) this.#define(each, out)
  }
}

function putMessage(out: number[], body: readonly number[]): void {
  putUnsigned(out, body.length)
  for (const byte of body) out.push(byte)
}

function putStruct(out: number[], { fields }: Struct, value: GobObject): void {
  let last = -1
  for (const [at, [name, type]] of Object.entries(fields).entries()) {
    const field = value[name]
    if (field === undefined || isZero(field)) continue
    putUnsigned(out, at - last)
    putValue(out, type, field)
    last = at
  }
  out.push(0)
}

function putValue(out: number[], type: GobType, value: GobValue): void {
  if (type.kind === "struct" && isGobObject(value)) putStruct(out, type, value)
  else if (type.kind === "slice" && Array.isArray(value)) {
    putUnsigned(out, value.length)
    for (const element of value) putValue(out, type.element, element)
  } else if (type === text && typeof value === "string") putText(out, value)
  else if (type === octets && value instanceof Uint8Array) putBytes(out, value)
  else if (type === signed && typeof value === "number") putSigned(out, value)
  else if (type === unsigned && typeof value === "number") putUnsigned(out, value)
  else if (typeof value === "boolean") putUnsigned(out, value ? 1 : 0)
  else throw new TypeError(`Cannot encode ${typeof value} as a value of type ${JSON.stringify(type)}`)
}

function isZero(value: GobValue): boolean {
  if (typeof value === "number") return value === 0
  if (typeof value === "boolean") return !value
  return typeof value === "string" || value instanceof Uint8Array || Array.isArray(value) ? value.length === 0 : false
}

/** Below 128 one byte; else the count of bytes, negated, and the bytes, the highest first. Up to 53 bits. */
function putUnsigned(out: number[], value: number): void {
  if (value < 0x80) {
    out.push(value)
    return
  }
  const bytes: number[] = []
  for (let rest = value; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256)
  out.push(256 - bytes.length, ...bytes)
}

function putSigned(out: number[], value: number): void {
  putUnsigned(out, value < 0 ? (-value - 1) * 2 + 1 : value * 2)
}

function putText(out: number[], value: string): void {
  putBytes(out, encodeUtf8(value))
}

function putBytes(out: number[], bytes: Uint8Array): void {
  putUnsigned(out, bytes.length)
  for (const byte of bytes) out.push(byte)
}
