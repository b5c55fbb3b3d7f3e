import { decodeUtf8 } from "../../../pkg/engine/mod.ts"
import {
  boolean,
  GobError,
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
  wireType,
} from "./gob.ts"

/** The maximum size of a message: more than any configuration with its prevResult. */
const MESSAGE_MAX = 17 << 20
/** The maximum depth of nested types. No type of this protocol reaches it, but a sender may define a recursive type. */
const DEPTH_MAX = 16

/**
 * A decoder for one direction of a connection. The caller pushes bytes as they arrive, and reads the complete values.
 */
export class GobDecoder {
  readonly #types = new Map<number, Struct | Slice>()
  #bytes = new Uint8Array()

  push(bytes: Uint8Array): void {
    const all = new Uint8Array(this.#bytes.length + bytes.length)
    all.set(this.#bytes)
    all.set(bytes, this.#bytes.length)
    this.#bytes = all
  }

  /** Returns the next value of a struct, or undefined if it is still incomplete. Throws `GobError`. */
  next(): GobObject | undefined {
    for (;;) {
      const message = this.#takeMessage()
      if (!message) return undefined
      const id = message.signed()
      const type = this.#types.get(id)
      if (id < 0) this.#types.set(-id, definedBy(this.#readStruct(message, wireType, 0)))
      else if (type && "fields" in type) return this.#readStruct(message, type, 0)
      else throw new GobError(`type ${id} of a value is not a struct`)
    }
  }

  #takeMessage(): Reader | undefined {
    const header = new Reader(this.#bytes)
    if (!header.hasUnsigned) return undefined
    const length = header.unsigned()
    if (length > MESSAGE_MAX) throw new GobError(`a message has ${length} bytes: at most ${MESSAGE_MAX} are allowed`)
    const end = header.at + length
    if (end > this.#bytes.length) return undefined
    const message = this.#bytes.slice(header.at, end)
    this.#bytes = this.#bytes.slice(end)
    return new Reader(message)
  }

  #readValue(reader: Reader, type: GobType, depth: number): GobValue {
    if (depth > DEPTH_MAX) throw new GobError(`a value is nested more than ${DEPTH_MAX} levels deep`)
    if ("fields" in type) return this.#readStruct(reader, type, depth)
    if ("element" in type) return this.#readList(reader, type, depth)
    switch (type.id) {
      case boolean.id:
        return reader.unsigned() !== 0
      case signed.id:
        return reader.signed()
      case unsigned.id:
        return reader.unsigned()
      case octets.id:
        return reader.bytes().slice()
      case text.id:
        return decodeUtf8(reader.bytes())
    }
    const defined = this.#types.get(type.id)
    if (!defined) throw new GobError(`type ${type.id} of a value is not defined`)
    return this.#readValue(reader, defined, depth)
  }

  #readList(reader: Reader, { element }: Slice, depth: number): GobValue[] {
    const count = reader.unsigned()
    if (count > reader.left) throw new GobError(`a list has ${count} elements, but only ${reader.left} bytes are left`)
    const list: GobValue[] = []
    while (list.length < count) list.push(this.#readValue(reader, element, depth + 1))
    return list
  }

  #readStruct(reader: Reader, { fields }: Struct, depth: number): GobObject {
    const value: Record<string, GobValue> = Object.create(null)
    for (let at = -1, step = reader.unsigned(); step !== 0; step = reader.unsigned()) {
      at += step
      const field = fields[at]
      if (!field) throw new GobError(`a struct with ${fields.length} fields has a value for field ${at}`)
      value[field.name] = this.#readValue(reader, field.type, depth + 1)
    }
    return value
  }
}

/** Returns the type that a value of `wireType` defines. */
function definedBy({ SliceT, StructT }: GobObject): Struct | Slice {
  if (isGobObject(SliceT)) return { name: "", element: { id: Number(SliceT.Elem ?? 0) } }
  if (!isGobObject(StructT)) throw new GobError("a type definition is neither a list nor a struct")
  const fields = Array.isArray(StructT.Field) ? StructT.Field.filter(isGobObject) : []
  return {
    name: "",
    fields: fields.map(({ Name, Id }) => ({ name: String(Name ?? ""), type: { id: Number(Id ?? 0) } })),
  }
}

/** A reader of numbers and bytes. It throws `GobError` for a value that exceeds the input. */
class Reader {
  readonly #bytes: Uint8Array
  at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  get left(): number {
    return this.#bytes.length - this.at
  }

  /** Whether a complete number has arrived. */
  get hasUnsigned(): boolean {
    const first = this.#bytes[this.at]
    return first !== undefined && (first < 0x80 || this.left > 256 - first)
  }

  unsigned(): number {
    const first = this.#byte()
    if (first < 0x80) return first
    const length = 256 - first
    if (length > 8) throw new GobError(`a number has ${length} bytes`)
    let value = 0
    for (let at = 0; at < length; at++) value = value * 256 + this.#byte()
    if (!Number.isSafeInteger(value)) throw new GobError("a number has more than 53 bits")
    return value
  }

  signed(): number {
    const value = this.unsigned()
    return value % 2 === 0 ? value / 2 : -(value - 1) / 2 - 1
  }

  bytes(): Uint8Array {
    const length = this.unsigned()
    if (length > this.left) throw new GobError(`a value has ${length} bytes, but only ${this.left} are left`)
    this.at += length
    return this.#bytes.subarray(this.at - length, this.at)
  }

  #byte(): number {
    const byte = this.#bytes[this.at++]
    if (byte === undefined) throw new GobError("a message ends too early")
    return byte
  }
}
