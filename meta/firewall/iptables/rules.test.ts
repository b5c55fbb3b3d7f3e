import { describe, expect, test } from "bun:test"
import { labelRule, OWNERS, readLabel } from "./rules.ts"

const ip = "10.1.0.2/32"
const owner = "lab/c1/eth0"
const label = (...words: string[]) => ({ chain: OWNERS, words: ["-s", ip, "-m", "comment", "--comment", ...words] })

describe("a label", () => {
  test.each([
    ["lab/c1/eth0", { ip, owner, policy: "open", bridge: undefined }],
    ["lab/c1/eth0 same-bridge br0", { ip, owner, policy: "same-bridge", bridge: "br0" }],
    ["lab/c1/eth0 isolated br0", { ip, owner, policy: "isolated", bridge: "br0" }],
  ] as const)("is a rule with the comment %j, and read from it", (text, told) => {
    expect(labelRule(told)).toEqual(label(text))
    expect(readLabel(label(text))).toEqual(told)
  })

  test("of a policy that there is not is one without", () => {
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
  ])("is no rule %s", (_, rule) => {
    expect(readLabel(rule)).toBeUndefined()
  })
})
