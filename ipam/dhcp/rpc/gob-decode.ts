import { decodeUtf8 } from "../../../pkg/engine/mod.ts"
import { GobError, type GobObject, type GobValue } from "./gob-types.ts"

/** A type as its sender has defined it, with the numbers of others. */
type Wire = { readonly fields: readonly { name: string; id: number }[] } | { readonly element: number }

/** More than any configuration with its prevResult. */
const MESSAGE_MAX = 17 << 20
/** Deeper than any type of this protocol: a sender may define a list of itself. */
const DEPTH_MAX = 16

/**
 * Reads values as encoding/gob sends them, for one direction of one connection. Bytes are pushed as they come; the types are those
 * that the sender defines, whatever numbers they have.
 */
export class GobDecoder {
  readonly #types = new Map<number, Wire>()
  #bytes = new Uint8Array()

  push(bytes: Uint8Array): void {
    const all = new Uint8Array(this.#bytes.length + bytes.length)
    all.set(this.#bytes)
    all.set(bytes, this.#bytes.length)
    this.#bytes = all
  }

  /** The next value of a struct; undefined when not all of it has come yet. Throws `GobError`. */
  next(): GobObject | undefined {
    for (;;) {
      const message = this.#takeMessage()
      if (!message) return undefined
      const reader = new Reader(message)
      const id = reader.signed()
      if (id < 0) this.#types.set(-id, readDefinition(reader))
      else return this.#readTop(reader, id)
    }
  }

  #takeMessage(): Uint8Array | undefined {
    const header = new Reader(this.#bytes)
    if (!header.hasUnsigned) return undefined
    const length = header.unsigned()
    if (length > MESSAGE_MAX) throw new GobError(`a message of ${length} bytes: expected ${MESSAGE_MAX} at most`)
    const end = header.at + length
    if (end > this.#bytes.length) return undefined
    const message = this.#bytes.slice(header.at, end)
    this.#bytes = this.#bytes.slice(end)
    return message
  }

  #readTop(reader: Reader, id: number): GobObject {
    const type = this.#types.get(id)
    if (!type || !("fields" in type)) throw new GobError(`a value of type ${id}, which is no struct`)
    return this.#readStruct(reader, type, 0)
  }

  #readStruct(
    reader: Reader,
    { fields }: { fields: readonly { name: string; id: number }[] },
    depth: number,
  ): GobObject {
    const value: Record<string, GobValue> = Object.create(null)
    for (let at = -1; ; ) {
      const step = reader.unsigned()
      if (step === 0) return value
      at += step
      const field = fields[at]
      if (!field) throw new GobError(`field ${at} of a struct that has ${fields.length}`)
      value[field.name] = this.#readValue(reader, field.id, depth + 1)
    }
  }

  #readValue(reader: Reader, id: number, depth: number): GobValue {
    if (depth > DEPTH_MAX) throw new GobError("a value that is too deep")
    switch (id) {
      case 1:
        return reader.unsigned() !== 0
      case 2:
        return reader.signed()
      case 3:
        return reader.unsigned()
      case 5:
        return reader.bytes().slice()
      case 6:
        return decodeUtf8(reader.bytes())
    }
    const type = this.#types.get(id)
    if (!type) throw new GobError(`a value of type ${id}, which was not defined`)
    if ("fields" in type) return this.#readStruct(reader, type, depth)
    const count = reader.unsigned()
    if (count > reader.left) throw new GobError(`a list of ${count} in ${reader.left} bytes`)
    const list: GobValue[] = []
    while (list.length < count) list.push(this.#readValue(reader, type.element, depth + 1))
    return list
  }
}

/** The definition of a type, Go's `wireType`: of lists and structs, the only ones here. */
function readDefinition(reader: Reader): Wire {
  const kind = reader.unsigned()
  if (kind !== 2 && kind !== 3) throw new GobError(`a definition of kind ${kind - 1}: expected a list or a struct`)
  let wire: Wire = kind === 2 ? { element: 0 } : { fields: [] }
  readFields(reader, (field) => {
    if (field === 0) readFields(reader, (part) => void (part === 0 ? reader.bytes() : reader.signed()))
    else if (kind === 2) wire = { element: reader.signed() }
    else wire = { fields: readFieldList(reader) }
  })
  return wire
}

function readFieldList(reader: Reader): { name: string; id: number }[] {
  const count = reader.unsigned()
  if (count > reader.left) throw new GobError(`${count} fields in ${reader.left} bytes`)
  const fields: { name: string; id: number }[] = []
  while (fields.length < count) {
    const field = { name: "", id: 0 }
    readFields(reader, (part) => {
      if (part === 0) field.name = decodeUtf8(reader.bytes())
      else field.id = reader.signed()
    })
    fields.push(field)
  }
  return fields
}

/** Goes through the fields that a struct has: `read` takes the value of the field with this number, 0 or 1. */
function readFields(reader: Reader, read: (field: number) => void): void {
  for (let at = -1; ; ) {
    const step = reader.unsigned()
    if (step === 0) return
    at += step
    if (at > 1) throw new GobError(`field ${at} in the definition of a type`)
    read(at)
  }
}

/** Numbers and bytes, one after the other. Throws `GobError` beyond the end. */
class Reader {
  readonly #bytes: Uint8Array
  at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  get left(): number {
    return this.#bytes.length - this.at
  }

  /** Whether a whole number is there. */
  get hasUnsigned(): boolean {
    const first = this.#bytes[this.at]
    return first !== undefined && (first < 0x80 || this.left > 256 - first)
  }

  unsigned(): number {
    const first = this.#byte()
    if (first < 0x80) return first
    const length = 256 - first
    if (length > 8) throw new GobError(`a number of ${length} bytes`)
    let value = 0
    for (let at = 0; at < length; at++) value = value * 256 + this.#byte()
    if (!Number.isSafeInteger(value)) throw new GobError("a number of more than 53 bits")
    return value
  }

  signed(): number {
    const value = this.unsigned()
    return value % 2 === 0 ? value / 2 : -(value - 1) / 2 - 1
  }

  bytes(): Uint8Array {
    const length = this.unsigned()
    if (length > this.left) throw new GobError(`${length} bytes where ${this.left} are left`)
    this.at += length
    return this.#bytes.subarray(this.at - length, this.at)
  }

  #byte(): number {
    const byte = this.#bytes[this.at++]
    if (byte === undefined) throw new GobError("a message that ends too early")
    return byte
  }
}
