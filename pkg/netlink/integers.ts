import { type Codec, codec, DecodeError, type Infer } from "./codec.ts"
import type { Output } from "./output.ts"

/** A codec that also reads and writes at an offset, for fields of structs and lengths in headers. */
export interface FixedCodec<T> extends Codec<T> {
  readonly size: number
  put(value: T, into: Uint8Array, at: number): void
  get(from: Uint8Array, at: number): T
}

function fixed<T>(size: number, put: FixedCodec<T>["put"], get: FixedCodec<T>["get"]): FixedCodec<T> {
  const append = (value: T, to: Output) => {
    put(value, to.reserve(size), to.end)
    to.end += size
  }
  const read = (from: Uint8Array, start: number, end: number) => {
    if (end - start !== size) throw wrongSize(end - start, size)
    return get(from, start)
  }
  return { ...codec(append, read), size, put, get }
}

function wrongSize(found: number, expected: number): DecodeError {
  return new DecodeError(`expected ${expected} bytes, found ${found}`)
}

function unfit(value: number, min: number, max: number): RangeError {
  return new RangeError(`${value} does not fit: expected ${min} to ${max}`)
}

// Each codec is unrolled, because a loop over the bytes, or a function call for each half, costs an ADD 3 % more
// instructions. Bytes beyond the end are undefined, which bit operations treat as 0.

export const u8 = fixed<number>(
  1,
  (value, into, at) => {
    if ((value & 0xff) !== value) throw unfit(value, 0, 0xff)
    into[at] = value
  },
  (from, at) => from[at] ?? 0,
)

export const u16 = fixed<number>(
  2,
  (value, into, at) => {
    if ((value & 0xffff) !== value) throw unfit(value, 0, 0xffff)
    into[at] = value
    into[at + 1] = value >> 8
  },
  (from, at) => (from[at] as number) | ((from[at + 1] as number) << 8),
)

export const u16be = fixed<number>(
  2,
  (value, into, at) => {
    if ((value & 0xffff) !== value) throw unfit(value, 0, 0xffff)
    into[at] = value >> 8
    into[at + 1] = value
  },
  (from, at) => ((from[at] as number) << 8) | (from[at + 1] as number),
)

export const u32 = fixed<number>(
  4,
  (value, into, at) => {
    if (value >>> 0 !== value) throw unfit(value, 0, 0xffffffff)
    into[at] = value
    into[at + 1] = value >> 8
    into[at + 2] = value >> 16
    into[at + 3] = value >> 24
  },
  (from, at) =>
    ((from[at] as number) |
      ((from[at + 1] as number) << 8) |
      ((from[at + 2] as number) << 16) |
      ((from[at + 3] as number) << 24)) >>>
    0,
)

export const i32 = fixed<number>(
  4,
  (value, into, at) => {
    if ((value | 0) !== value) throw unfit(value, -0x80000000, 0x7fffffff)
    into[at] = value
    into[at + 1] = value >> 8
    into[at + 2] = value >> 16
    into[at + 3] = value >> 24
  },
  (from, at) =>
    (from[at] as number) |
    ((from[at + 1] as number) << 8) |
    ((from[at + 2] as number) << 16) |
    ((from[at + 3] as number) << 24),
)

export const u32be = fixed<number>(
  4,
  (value, into, at) => {
    if (value >>> 0 !== value) throw unfit(value, 0, 0xffffffff)
    into[at] = value >> 24
    into[at + 1] = value >> 16
    into[at + 2] = value >> 8
    into[at + 3] = value
  },
  (from, at) =>
    (((from[at] as number) << 24) |
      ((from[at + 1] as number) << 16) |
      ((from[at + 2] as number) << 8) |
      (from[at + 3] as number)) >>>
    0,
)

function long(half: FixedCodec<number>, highAt: number): FixedCodec<bigint> {
  return fixed(
    8,
    (value, into, at) => {
      if (BigInt.asUintN(64, value) !== value) throw new RangeError(`${value} does not fit: expected 0 to 2^64-1`)
      half.put(Number(value >> 32n), into, at + highAt)
      half.put(Number(value & 0xffffffffn), into, at + 4 - highAt)
    },
    (from, at) => (BigInt(half.get(from, at + highAt)) << 32n) | BigInt(half.get(from, at + 4 - highAt)),
  )
}

export const u64 = long(u32, 4)
export const u64be = long(u32be, 0)

export type StructFields = Record<string, FixedCodec<number> | FixedCodec<bigint>>
type StructValue<F extends StructFields> = { [K in keyof F]: Infer<F[K]> }
type PartialStruct<F extends StructFields> = { [K in keyof F]?: Infer<F[K]> | undefined }

/** The codec of a C struct. A field that is missing in a value is encoded as 0. */
export interface Struct<F extends StructFields> extends Codec<StructValue<F>> {
  readonly size: number
  /** The offset of each field in bytes. */
  readonly offsets: Readonly<Record<keyof F, number>>
  append(value: PartialStruct<F>, to: Output): void
  encode(value: PartialStruct<F>): Uint8Array
}

/** Returns the codec of a C struct of integers without padding. The fields are encoded in the given order. */
export function struct<const F extends StructFields>(fields: F): Struct<F> {
  const layout: (FixedCodec<unknown> & { name: string; at: number })[] = []
  let size = 0
  for (const name in fields) {
    const field = fields[name] as unknown as FixedCodec<unknown>
    layout.push({ ...field, name, at: size })
    size += field.size
  }
  const append = (value: PartialStruct<F>, to: Output) => {
    const start = to.end
    to.addZeros(size)
    for (let i = 0; i < layout.length; i++) {
      const field = layout[i] as (typeof layout)[number]
      const item = value[field.name]
      if (item !== undefined) field.put(item, to.room, start + field.at)
    }
  }
  const read = (from: Uint8Array, start: number, end: number) => {
    if (end - start !== size) throw wrongSize(end - start, size)
    const value: Record<string, unknown> = {}
    for (let i = 0; i < layout.length; i++) {
      const field = layout[i] as (typeof layout)[number]
      value[field.name] = field.get(from, start + field.at)
    }
    return value as StructValue<F>
  }
  const offsets = Object.fromEntries(layout.map(({ name, at }) => [name, at]))
  return { ...codec<StructValue<F>>(append, read), append, size, offsets } as Struct<F>
}
