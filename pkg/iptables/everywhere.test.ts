import { expect, test } from "bun:test"
import { narrow } from "./everywhere.ts"

const rule = (chain: string, ...words: string[]) => ({ chain, words })
const content = {
  chains: ["POSTROUTING", "OUTPUT", "CNI-a", "CNI-b", "X"],
  rules: [
    rule("POSTROUTING", "-j", "CNI-a"),
    rule("POSTROUTING", "-g", "CNI-b"),
    rule("POSTROUTING", "-j", "X"),
    rule("POSTROUTING"),
    rule("OUTPUT", "-j", "CNI-a"),
    rule("CNI-a", "-j", "MASQUERADE"),
    rule("CNI-b", "-j", "ACCEPT"),
    rule("X", "-j", "CNI-a"),
  ],
}

test.each([
  ["names", ["CNI-a", "CNI-gone"], ["CNI-a"], [0, 5]],
  ["a pattern", /^CNI-/, ["CNI-a", "CNI-b"], [0, 1, 5, 6]],
  ["names of none", ["CNI-gone"], [], []],
])(
  "of a table a search by %s keeps its chains, their rules, and those of the parents that lead there",
  (_, chains, found, rules) => {
    expect(narrow(content, { chains, parents: ["POSTROUTING"] })).toEqual({
      chains: found,
      rules: rules.map((at) => content.rules[at] as (typeof content.rules)[number]),
    })
  },
)
