import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { chainName, containerComment, networkComment, quoteWord, splitWords } from "./rule.ts"

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

  test("comes back from its quotes with anything in it", () => {
    const word = fc.string({ minLength: 1, unit: "binary" }).filter((text) => !/[\0\r\n]/.test(text))
    fc.assert(fc.property(fc.array(word), (words) => expect(splitWords(words.map(quoteWord).join(" "))).toEqual(words)))
  })
})

// Names that the Go suite has given.
test.each([
  ["CNI-", "test", "1234", "CNI-2bbe0c48b91a7d1b8a6753a8"],
  ["CNI-", "testalongnamethatdoesnotmakesense", "1234", "CNI-374f33fe84ab0ed84dcdebe3"],
  ["CNI-", "mynet", "ctr-1", "CNI-76edbb2e17c69aeb6041d986"],
  ["CNI-DN-", "tnet", "cid1", "CNI-DN-f67e00a966f2d1b8b0671"],
])("the chain %s… of network %s and container %s is %s, as upstream names it", (prefix, network, containerId, name) => {
  expect(chainName(prefix, { network, containerId })).toBe(name)
})

test("a comment is upstream's, begins with the network's, and never has more than iptables takes", () => {
  const owner = { network: "mynet", containerId: "ctr-1" }
  expect(containerComment(owner)).toBe('name: "mynet" id: "ctr-1"')
  expect(containerComment(owner, "dnat ")).toBe('dnat name: "mynet" id: "ctr-1"')
  expect(containerComment(owner)).toStartWith(networkComment("mynet"))
  const long = containerComment({ network: "mynet", containerId: "c".repeat(300) })
  expect(long).toHaveLength(255)
  expect(long).toEndWith("ccc...")
})
