import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { locateJsonFault } from "./json-fault.ts"
import {
  CniError,
  Code,
  describe as describeValue,
  isCniError,
  isJsonObject,
  parseJson,
  parseJsonObject,
  printJson,
  stringifyJson,
} from "./mod.ts"

function fault(text: string | Uint8Array): string {
  try {
    parseJsonObject(text)
  } catch (error) {
    if (isCniError(error, Code.Decoding)) return error.message
    throw error
  }
  return "nothing was thrown"
}

describe("reading", () => {
  test("null reads as an empty object", () => {
    expect(parseJsonObject("null")).toEqual({})
  })

  test("bytes are UTF-8, and a byte order mark is not JSON", () => {
    expect(parseJsonObject(new TextEncoder().encode('{"name":"é"}'))).toEqual({ name: "é" })
    expect(fault(Uint8Array.of(0xef, 0xbb, 0xbf, 0x7b, 0x7d))).toContain("line 1, column 1: expected a value")
  })

  test.each([
    ["", "line 1, column 1: expected a value, found the end of the text"],
    ['{"a": 1,\n  "b": tru}', 'line 2, column 8: expected a value, found "tru"'],
    ['{"a": 1 "b"', 'line 1, column 9: expected "," or "}", found a string'],
    ["{'a': 1}", 'line 1, column 2: expected a key in double quotes or "}", found "\'"'],
    ['{"a": 1,}', 'line 1, column 9: expected a key in double quotes, found "}"'],
    ['{"a" 1}', 'line 1, column 6: expected ":", found "1"'],
    ['{"a": [1, ]}', 'line 1, column 11: expected a value, found "]"'],
    ['{"a": [1 2]}', 'line 1, column 10: expected "," or "]", found "2"'],
    ['{"a": 01}', 'line 1, column 7: expected a value, found "01"'],
    ["{} // note", 'line 1, column 4: expected nothing more, found "/"'],
    ['{"a": "x', "line 1, column 7: expected a value, found a string without an end"],
    ['{"é😀": }', 'line 1, column 8: expected a value, found "}"'],
  ])("%j is refused with its place", (text, place) => {
    expect(fault(text)).toContain(place)
  })

  test.each(["[]", "5", '"text"', "true"])("%s is JSON, but no object", (text) => {
    expect(fault(text)).toContain(`expected a JSON object, found ${text}`)
  })

  test("the place of a fault is found exactly where JSON.parse finds one", () => {
    const pieces = [..."{}[],: \n", '"a"', '"\\u00e9"', '"\\x"', "1", "-0.5e+3", "01", "1.", "true", "nul", '"', "\t"]
    const soup = fc.array(fc.constantFrom(...pieces), { maxLength: 12 }).map((parts) => parts.join(""))
    fc.assert(
      fc.property(fc.oneof(soup, fc.json(), fc.string()), (text) => {
        expect(locateJsonFault(text) === undefined).toBe(isJson(text))
      }),
      { numRuns: 3000 },
    )
  })

  test("a thousand levels are read, of lists and objects, and one more is refused, at each place", () => {
    const lists = (count: number) => `${"[".repeat(count)}1${"]".repeat(count)}`
    const objects = (count: number) => `${'{"a":'.repeat(count)}1${"}".repeat(count)}`
    for (const nested of [lists, objects]) {
      expect(() => parseJson(nested(1000))).not.toThrow()
      expect(() => parseJson(nested(1001))).toThrow(
        "Cannot decode the JSON document: nested more than 1000 levels deep",
      )
      for (const beside of ["12345678901234567890", "1", '"x"', "{}"]) {
        expect(() => parseJson(`[${beside},${nested(999)}]`)).not.toThrow()
        expect(() => parseJson(`[${beside},${nested(1000)}]`)).toThrow("nested more than 1000 levels deep")
        expect(() => parseJson(`[${nested(1000)},${beside}]`)).toThrow("nested more than 1000 levels deep")
      }
    }
  })

  test("deep nesting is refused, not a crash", () => {
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`
    expect(fault(`{"a":${deep}}`)).toContain("nested more than 1000 levels deep")
    expect(fault(`{"a":${deep},"b":12345678901234567890}`)).toContain("Cannot decode the network configuration")
    expect(() => parseJson(`${"[".repeat(999)}1${"]".repeat(999)}${" ".repeat(3000)}`)).not.toThrow()
  })
})

describe("numbers", () => {
  test.each([
    "12345678901234567890",
    "-9007199254740993",
    "9007199254740993",
    "1e400",
    "1e22",
    "123456789012345678901.0",
  ])("%s survives reading and writing", (number) => {
    expect(stringifyJson(parseJson(`{"a":[${number}]}`))).toBe(`{"a":[${number}]}`)
  })

  test.each(["N", " N", "[N]", "[N,1]", "[1,N]", "[ N ]", "[\tN\n]", '{"a":N}', '{"a": N, "b": 1}', '{"a":[[N],{}]}'])(
    "at each place, as in %s",
    (place) => {
      for (const number of ["12345678901234567890", "-9007199254740993", "1e400", "-1.5E+400", "12345678901234567e3"]) {
        const text = place.replace("N", number)
        expect(stringifyJson(parseJson(text))).toBe(text.replaceAll(/\s/g, ""))
      }
    },
  )

  test("integers that a double holds exactly are plain numbers", () => {
    expect(parseJson("[9007199254740991, 1e3, 0.5, 1234567890123456]")).toEqual([
      9007199254740991, 1000, 0.5, 1234567890123456,
    ])
  })

  test("a number kept as text is not an object", () => {
    const value = parseJson("12345678901234567890")
    expect(isJsonObject(value)).toBe(false)
    expect(fault("12345678901234567890")).toContain("found 12345678901234567890")
  })

  test("digits inside a text are no number", () => {
    expect(parseJson('"12345678901234567890"')).toBe("12345678901234567890")
  })
})

describe("writing", () => {
  test("four spaces, no newline at the end, and web-page characters escaped, as upstream prints", () => {
    expect(printJson({ a: ["<&>\u2028\u2029"], "<": {} })).toBe(
      '{\n    "a": [\n        "\\u003c\\u0026\\u003e\\u2028\\u2029"\n    ],\n    "\\u003c": {}\n}',
    )
    expect(stringifyJson({ a: "<" })).toBe('{"a":"\\u003c"}')
  })

  test("any JSON comes back as it was", () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
        const expected = JSON.parse(JSON.stringify(value))
        expect(JSON.stringify(parseJson(printJson(value)))).toBe(JSON.stringify(expected))
      }),
    )
  })

  test("random text is JSON, or an error of code 6", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json(), fc.uint8Array()), (input) => {
        try {
          expect(isJsonObject(parseJsonObject(input))).toBe(true)
        } catch (error) {
          expect(error).toBeInstanceOf(CniError)
        }
      }),
    )
  })
})

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

test("a text of more than 256 KiB is left to the engine's words", () => {
  const open = (length: number) => `{"a":"${"x".repeat(length - 6)}`
  expect(locateJsonFault(open(256 << 10))).toBeString()
  expect(locateJsonFault(open((256 << 10) + 1))).toBeUndefined()
})

test.each([
  [undefined, "nothing"],
  [null, "null"],
  ["a", '"a"'],
  [5, "5"],
  [{ a: [1] }, '{"a":[1]}'],
  [() => 1, "function"],
  ["x".repeat(58), `"${"x".repeat(58)}"`],
  ["x".repeat(59), `"${"x".repeat(56)}...`],
])("a value that an error shows is short, %#", (value, text) => {
  expect(describeValue(value)).toBe(text)
})
