import { describe, expect, test } from "bun:test"
import { encodeAll, outcomeOf } from "./gob.fixture.ts"
import { type GobType, type GobValue, slice, struct, unsigned } from "./gob.ts"

// https://pkg.go.dev/encoding/gob, "Encoding Details": a number below 128 is one byte. For others the first byte is the
// negated number of bytes.
describe("the edges of numbers and lists", () => {
  test("a length that has not come whole is waited for, of one byte and of several", () => {
    expect(outcomeOf([])).toEqual([])
    expect(outcomeOf([0x7f])).toEqual([])
    expect(outcomeOf([0xff])).toEqual([])
    expect(outcomeOf([0xfe, 1])).toEqual([])
    expect(outcomeOf([0xff, 0x80])).toEqual([])
    expect(outcomeOf([0xfc, 1, 16, 0, 1])).toBe("a message has 17825793 bytes: at most 17825792 are allowed")
    expect(outcomeOf([0xfc, 1, 16, 0, 0])).toEqual([])
  })

  test("a list of fields cannot have more than there are bytes left", () => {
    // Type -64 is a struct: no field of CommonType, then the fields.
    const define = (...fields: number[]) => [7 + fields.length, 0x7f, 3, 1, 0, 1, ...fields, 0, 0]
    expect(outcomeOf(define(2, 0, 0))).toEqual([])
    expect(outcomeOf(define(5, 0, 0))).toBe("a list has 5 elements, but only 4 bytes are left")
  })
})

describe("an error names what is not gob of this protocol", () => {
  // Type 64, written as 0xff 0x80, has two fields, both unsigned numbers.
  const struct64 = [14, 0x7f, 3, 1, 0, 1, 2, 2, 6, 0, 2, 6, 0, 0, 0]
  test.each([
    ["a number has 9 bytes", [0xf7, 1, 2, 3, 4, 5, 6, 7, 8, 9]],
    ["a number has more than 53 bits", [0xf8, 1, 2, 3, 4, 5, 6, 7, 8]],
    ["type 0 of a value is not a struct", [1, 0]],
    ["type 3 of a value is not a struct", [1, 6]],
    ["a struct with 3 fields has a value for field 3", [2, 0x7f, 4]],
    ["a type definition is neither a list nor a struct", [2, 0x7f, 0]],
    ["a struct with 2 fields has a value for field 2", [4, 0x7f, 3, 3, 0]],
    ["a message ends too early", [9, 0x7f, 3, 1, 0, 1, 3, 0, 0, 0]],
    ["a struct with 2 fields has a value for field 2", [...struct64, 4, 0xff, 0x80, 3, 0]],
  ])("%s", (says, bytes) => {
    expect(outcomeOf(bytes)).toBe(says)
  })

  test("numbers at the last field of a struct are read", () => {
    expect(outcomeOf([...struct64, 5, 0xff, 0x80, 2, 7, 0])).toEqual([{ "": 7 }])
  })
})

test.each([
  ["lists", (type: GobType) => slice("", type), (value: GobValue) => [value], 15],
  ["structs", (type: GobType) => struct("", { A: type }), (value: GobValue) => ({ A: value }), 15],
])("a value in a struct may be 16 deep: %s", (_, wrap, fill, depth) => {
  const outcome = (count: number) => {
    let [type, value]: [GobType, GobValue] = [unsigned, 7]
    for (let at = 0; at < count; at++) [type, value] = [wrap(type), fill(value)]
    return outcomeOf([...encodeAll([struct("", { A: type }), { A: value }])])
  }
  expect(outcome(depth)).toBeArrayOfSize(1)
  expect(outcome(depth + 1)).toBe("a value is nested more than 16 levels deep")
})
