/** What the tests of this room read and write gobs with. For tests only. */
import { defineTypes, GobEncoder, GobError, type GobObject, type Struct } from "./gob.ts"
import { GobDecoder } from "./gob-decode.ts"

/** All values in bytes. */
export function decodeAll(bytes: Uint8Array): GobObject[] {
  const decoder = new GobDecoder()
  decoder.push(bytes)
  const values: GobObject[] = []
  for (let value = decoder.next(); value; value = decoder.next()) values.push({ ...value })
  return values
}

/** The bytes of values, one after the other, of one sender. */
export function encodeAll(...values: [Struct, GobObject][]): Uint8Array {
  const encoder = new GobEncoder(defineTypes(...values.map(([type]) => type)))
  return Uint8Array.from(values.flatMap(([type, value]) => [...encoder.encode(type, value)]))
}

/** What a decoder says of bytes: the values in them, or the error. */
export function outcomeOf(bytes: readonly number[]): unknown {
  try {
    return decodeAll(Uint8Array.from(bytes))
  } catch (error) {
    return error instanceof GobError ? error.message : error
  }
}
