/** Encodes and decodes whole gob streams. For tests only. */
import { defineTypes, GobEncoder, GobError, type GobObject, type Struct } from "./gob.ts"
import { GobDecoder } from "./gob-decode.ts"

export function decodeAll(bytes: Uint8Array): GobObject[] {
  const decoder = new GobDecoder()
  decoder.push(bytes)
  const values: GobObject[] = []
  for (let value = decoder.next(); value; value = decoder.next()) values.push({ ...value })
  return values
}

export function encodeAll(...values: [Struct, GobObject][]): Uint8Array {
  const encoder = new GobEncoder(defineTypes(...values.map(([type]) => type)))
  return Uint8Array.from(values.flatMap(([type, value]) => [...encoder.encode(type, value)]))
}

/** Returns the values of a stream, or the text of the decoder's error. */
export function outcomeOf(bytes: readonly number[]): unknown {
  try {
    return decodeAll(Uint8Array.from(bytes))
  } catch (error) {
    return error instanceof GobError ? error.message : error
  }
}
