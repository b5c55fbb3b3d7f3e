import { describe, expect, test } from "bun:test"
import { acceptedAddress, acceptRules, FORWARD, labelRule, OWNERS, readLabel } from "./rules.ts"

const ip = "10.1.0.2/32"
const owner = "lab/c1/eth0"
const label = (...words: string[]) => ({ chain: OWNERS, words: ["-s", ip, "-m", "comment", "--comment", ...words] })

describe("a label", () => {
  test.each([
    ["lab/c1/eth0", { ip, owner, policy: "open", bridge: undefined }],
    ["lab/c1/eth0 same-bridge br0", { ip, owner, policy: "same-bridge", bridge: "br0" }],
    ["lab/c1/eth0 isolated br0", { ip, owner, policy: "isolated", bridge: "br0" }],
  ] as const)("is a rule with the comment %j, and read from it", (text, fields) => {
    expect(labelRule(fields)).toEqual(label(text))
    expect(readLabel(label(text))).toEqual(fields)
  })

  test("of a policy that does not exist is one without", () => {
    expect(readLabel(label("lab/c1/eth0 closed br0"))).toEqual({ ip, owner, policy: "open", bridge: undefined })
  })

  test.each([
    ["of another chain", { ...label(owner), chain: "CNI-FORWARD" }],
    ["with a target", label(owner, "-j", "ACCEPT")],
    ["without an address", { chain: OWNERS, words: ["-m", "comment", "--comment", owner] }],
    ["for any other address", { chain: OWNERS, words: ["!", ...label(owner).words] }],
    ["without a comment", { chain: OWNERS, words: ["-s", ip] }],
    ["with an empty comment", label("")],
    ["that ends with the option", label()],
  ])("is not a rule %s", (_, rule) => {
    expect(readLabel(rule)).toBeUndefined()
  })
})

describe("the address that a rule accepts", () => {
  const rule = (words: string, chain = FORWARD) => ({ chain, words: words.split(" ") })
  const answers = "-m conntrack --ctstate RELATED,ESTABLISHED"

  test("is told by the rules of an address, as they are written and as they lie in the kernel", () => {
    expect(acceptRules(ip)).toEqual([rule(`-d ${ip} ${answers} -j ACCEPT`), rule(`-s ${ip} -j ACCEPT`)])
    expect([...acceptRules(ip), rule(`-d ${ip} -m conntrack -j ACCEPT`)].map(acceptedAddress)).toEqual([ip, ip, ip])
  })

  test.each([
    ["of another chain", rule(`-s ${ip} -j ACCEPT`, "FORWARD")],
    ["that does not accept", rule(`-s ${ip} -j DROP`)],
    ["with more than the source", rule(`-s ${ip} -i br0 -j ACCEPT`)],
    ["from everywhere else", rule(`! -s ${ip} -j ACCEPT`)],
    ["by another match", rule(`-d ${ip} -m comment --comment x -j ACCEPT`)],
    ["to an address without a match", rule(`-d ${ip} -j ACCEPT`)],
    ["with more than the match", rule(`-d ${ip} ${answers} -m comment --comment x -j ACCEPT`)],
    ["from an address, by the match", rule(`-s ${ip} ${answers} -j ACCEPT`)],
    ["from an address to another", rule(`-s ${ip} -d 10.1.0.3/32 -j ACCEPT`)],
    ["by an interface, to an address", rule(`-i br0 -m conntrack -d ${ip} -j ACCEPT`)],
  ])("is not read from a rule %s", (_, other) => {
    expect(acceptedAddress(other)).toBeUndefined()
  })
})
