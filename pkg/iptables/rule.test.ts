import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { anyCharacter } from "../types/testing/any-character.ts"
import {
  chainName,
  commentOf,
  containerComment,
  destinationOf,
  inputOf,
  isSameRule,
  networkComment,
  outputOf,
  quoteWord,
  sourceOf,
  splitWords,
  targetOf,
} from "./rule.ts"

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
    const word = fc.string({ minLength: 1, unit: anyCharacter }).filter((text) => !/[\0\r\n]/.test(text))
    fc.assert(fc.property(fc.array(word), (words) => expect(splitWords(words.map(quoteWord).join(" "))).toEqual(words)))
  })
})

// Names of chains that the Go plugins have created.
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

test("a comment of 255 characters is whole, and one more is cut", () => {
  const room = 255 - 'name: "mynet" id: ""'.length
  const comment = (length: number) => containerComment({ network: "mynet", containerId: "c".repeat(length) })
  expect(comment(room)).toBe(`name: "mynet" id: "${"c".repeat(room)}"`)
  expect(comment(room + 1)).toBe(`name: "mynet" id: "${"c".repeat(room - 2)}...`)
})

const options = [
  [sourceOf, "-s"],
  [destinationOf, "-d"],
  [inputOf, "-i"],
  [outputOf, "-o"],
  [commentOf, "--comment"],
  [targetOf, "-j"],
  [targetOf, "-g"],
] as const

test.each(options)("%p of a rule is the word after %s, unless the rule asks for any other", (find, option) => {
  const found = (...words: string[]) => find({ chain: "C", words })
  expect(found(option, "a")).toBe("a")
  expect(found("-p", "tcp", option, "a", "-m", "x")).toBe("a")
  expect(found("!", option, "a")).toBeUndefined()
  expect(found("-p", "tcp", "!", option, "a")).toBeUndefined()
  expect(found("-p", "tcp")).toBeUndefined()
  expect(found()).toBeUndefined()
})

test("two rules are the same when chain and words are", () => {
  const rule = { chain: "C", words: ["-s", "10.1.0.2/32"] }
  expect(isSameRule(rule, { chain: "C", words: ["-s", "10.1.0.2/32"] })).toBe(true)
  expect(isSameRule(rule, { ...rule, chain: "D" })).toBe(false)
  expect(isSameRule(rule, { ...rule, words: ["-s", "10.1.0.3/32"] })).toBe(false)
  expect(isSameRule(rule, { ...rule, words: ["-d", "10.1.0.2/32"] })).toBe(false)
  expect(isSameRule(rule, { ...rule, words: [...rule.words, "-j"] })).toBe(false)
  expect(isSameRule(rule, { ...rule, words: ["-s"] })).toBe(false)
})

test.each([
  ["", []],
  ["  a  b ", ["a", "b"]],
  ["a\\ b", ["a\\", "b"]],
  ['"a b"', ["a b"]],
  ['a" "b', ["a b"]],
  [String.raw`"a\"b" c`, ['a"b', "c"]],
  [String.raw`"a\\" b`, ["a\\", "b"]],
  ['"a b', ["a b"]],
  ['"a\\', ["a"]],
  ['""', []],
])("the words of %j are %j", (line, words) => {
  expect(splitWords(line)).toEqual(words)
})

test("what is plain needs no quotes, and what is not has them", () => {
  for (const plain of "abzAZ09_!#%+,./:=@-") expect(quoteWord(`x${plain}`)).toBe(`x${plain}`)
  for (const other of " $&'()*;<>?[]^`{|}~é\t") expect(quoteWord(`x${other}`)).toBe(`"x${other}"`)
  expect(() => quoteWord("")).toThrow('"" cannot be part of a rule')
  expect(() => quoteWord("a\nb")).toThrow('"a\\nb" cannot be part of a rule')
})
