/**
 * Types of Go as its encoding/gob sends them, and the values that stand for theirs. A field's place in its struct counts on the
 * wire, its name tells the receiver which of its own fields it is.
 *
 * @example
 * const request = struct("Request", { ServiceMethod: text, Seq: unsigned })
 */
export type GobType = Basic | Struct | Slice

export interface Basic {
  readonly kind: "basic"
  /** What encoding/gob numbers it by; the types of senders begin at 64. */
  readonly id: number
}

export interface Struct {
  readonly kind: "struct"
  readonly name: string
  readonly fields: { readonly [name: string]: GobType }
}

export interface Slice {
  readonly kind: "slice"
  readonly name: string
  readonly element: GobType
}

/** A value: of a struct an object without the fields that are zero, which are not sent. */
export type GobValue = boolean | number | string | Uint8Array | readonly GobValue[] | GobObject

export interface GobObject {
  readonly [field: string]: GobValue | undefined
}

export const signed = { kind: "basic", id: 2 } as const satisfies Basic
export const unsigned = { kind: "basic", id: 3 } as const satisfies Basic
export const octets = { kind: "basic", id: 5 } as const satisfies Basic
export const text = { kind: "basic", id: 6 } as const satisfies Basic

/** The first number that a sender may give to a type of its own is 64; Go's programs begin with the one after it. */
export const FIRST_TYPE = 65

export function struct(name: string, fields: { readonly [name: string]: GobType }): Struct {
  return { kind: "struct", name, fields }
}

/** A list; `name` is what Go calls it, "[]string". */
export function slice(name: string, element: GobType): Slice {
  return { kind: "slice", name, element }
}

/** A stream that is no gob, or has something in it that this protocol has not. */
export class GobError extends Error {
  override readonly name = "GobError"
}

/** Whether a value is one of a struct. */
export function isGobObject(value: GobValue | undefined): value is GobObject {
  return typeof value === "object" && !Array.isArray(value) && !(value instanceof Uint8Array)
}
