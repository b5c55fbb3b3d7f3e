import { expect, test } from "bun:test"
import { foreign, foreignValue } from "./foreign.ts"

test.each([
  ["eth0", "eth0"],
  ["größe 日本", "größe 日本"],
  ["a\nb\tc\rd", "a\\u000ab\\u0009c\\u000dd"],
  ["\x1b[31m\x9b2J\x7f\x00", "\\u001b[31m\\u009b2J\\u007f\\u0000"],
  ["a\u202eb\u2066c\u200ed\u061ce", "a\\u202eb\\u2066c\\u200ed\\u061ce"],
  ["a\u2028b\u2029c\u0085d", "a\\u2028b\\u2029c\\u0085d"],
  ["a\ufffeb\uffffc", "a\\ufffeb\\uffffc"],
])("what hides in text of others is shown: %j", (text, expected) => {
  expect(foreign(text)).toBe(expected)
  expect(foreignValue({ a: [{ [text]: text }], n: 1 })).toEqual({ a: [{ [expected]: expected }], n: 1 })
})

test("a value without such characters is itself", () => {
  const value = { a: ["x", { b: null }], c: true }
  expect(foreignValue(value)).toBe(value)
})
