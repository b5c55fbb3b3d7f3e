import { expect, test } from "bun:test"
import fc from "fast-check"
import { duplicateKey, refuseDuplicateSysctls } from "./duplicate-keys.ts"

test("a key that comes twice is found, in sysctl and in args.cni.sysctl", () => {
  expect(duplicateKey('{"sysctl": {"net.a": "1", "net.b": "2", "net.a": "1"}}')).toBe("net.a")
  expect(duplicateKey('{"args": {"cni": {"sysctl": {"net.a": "1", "net.a": "2"}}}}')).toBe("net.a")
  expect(duplicateKey('{"Sysctl": {"net.a": "1"}, "SYSCTL": {"net.a": "1"}}')).toBe("net.a")
  expect(duplicateKey(String.raw`{"sysctl": {"net.a": "1", "net\u002ea": "2"}}`)).toBe("net.a")
})

test("the same key at the top and in args.cni is none", () => {
  expect(duplicateKey('{"sysctl": {"net.a": "1"}, "args": {"cni": {"sysctl": {"net.a": "2"}}}}')).toBeUndefined()
})

test("keys of other objects are not looked at, nor is what stands in strings", () => {
  expect(duplicateKey('{"x": {"a": 1, "a": 2}, "sysctl": {"net.a": "{\\"sysctl\\": {"}}')).toBeUndefined()
  expect(duplicateKey('{"list": [{"sysctl": {"a": "1", "a": "2"}}, ["a", "a"]], "sysctl": {"a": "a"}}')).toBeUndefined()
  expect(duplicateKey('{"ipam": {"sysctl": {"a": "1", "a": "1"}}}')).toBeUndefined()
})

test("a document without the same key twice has no duplicate", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue(), (sysctl, other) => {
      expect(duplicateKey(JSON.stringify({ other, sysctl, args: { other, cni: { sysctl } } }))).toBeUndefined()
    }),
  )
})

test("a key that was put in twice is found, wherever it is", () => {
  const key = fc.string().filter((text) => text !== "__proto__")
  fc.assert(
    fc.property(fc.dictionary(key, fc.jsonValue(), { minKeys: 1 }), fc.jsonValue(), (sysctl, other) => {
      const [name = ""] = Object.keys(sysctl)
      const inside = `${JSON.stringify(sysctl).slice(0, -1)}, ${JSON.stringify(name)}: ${JSON.stringify(other)}}`
      expect(duplicateKey(`{"other": ${JSON.stringify(other)}, "sysctl": ${inside}}`)).toBe(name)
    }),
  )
})

/** The refusal of a configuration, by the text and by what the parser makes of it. */
function refusalOf(text: string): string {
  const keys = Object.keys(JSON.parse(text).sysctl)
  try {
    refuseDuplicateSysctls(
      new TextEncoder().encode(text),
      keys.map((key) => ({ key })),
    )
    return ""
  } catch (error) {
    return String(error)
  }
}

test.each([
  ["twice", '{"sysctl": {"net.a": "1", "net.b": "1", "net.a": "1"}}'],
  ["with an escape", '{"sysctl": {"net.a": "1", "net\\u002ea": "1"}}'],
])("the refusal names a key that comes %s", (_, text) => {
  expect(refusalOf(text)).toContain('duplicated sysctl keys are not allowed: "net.a"')
})

test.each([
  ["with a text that is a key elsewhere", '{"sysctl": {"net.a": "net.a"}, "net.a": {"net.a": 1}}'],
  ["with escapes", '{"sysctl": {"net\\u002ea": "\\"net.a\\""}}'],
])("a configuration %s is not refused", (_, text) => {
  expect(refusalOf(text)).toBe("")
})
