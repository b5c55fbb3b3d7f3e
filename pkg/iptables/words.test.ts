import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { quoteWord, splitWords } from "./words.ts"

describe("a word of a rule", () => {
  test("stays as it is when all of it is plain", () => {
    for (const word of [
      "-s",
      "10.1.0.2/32",
      "fd00::/8",
      "!",
      "CNI-DN-0123",
      "0x2000/0x2000",
      "[fd00::2]:80",
      "80,443",
    ]) {
      expect(splitWords(quoteWord(word))).toEqual([word])
    }
    expect(quoteWord("10.1.0.2/32")).toBe("10.1.0.2/32")
  })

  test("is put in quotes as iptables-save does", () => {
    expect(quoteWord('name: "net" id: "c1"')).toBe(String.raw`"name: \"net\" id: \"c1\""`)
    expect(quoteWord(String.raw`a\b`)).toBe(String.raw`"a\\b"`)
  })

  test.each(["", "a\nCOMMIT", "a\r", "a\0"])("cannot be %j: it would become another line, or none", (word) => {
    expect(() => quoteWord(word)).toThrow(RangeError)
  })

  test("comes back from its quotes, whatever is in it", () => {
    const word = fc.string({ minLength: 1, unit: "binary" }).filter((text) => !/[\0\r\n]/.test(text))
    fc.assert(fc.property(fc.array(word), (words) => expect(splitWords(words.map(quoteWord).join(" "))).toEqual(words)))
  })
})
