import { expect, test } from "bun:test"
import { chain, printRestore, removalChanges, rule } from "./change.ts"

const jump = { chain: "POSTROUTING", words: ["-s", "10.1.0.2/32", "-m", "comment", "--comment", "a b", "-j", "X"] }

test("changes are one input of iptables-restore --noflush", () => {
  const changes = [
    chain.create("A"),
    chain.reset("X"),
    rule.append(jump),
    rule.prepend({ chain: "X", words: ["-j", "RETURN"] }),
  ]
  expect(printRestore("nat", changes)).toBe(`*nat
-N A
:X - [0:0]
-A POSTROUTING -s 10.1.0.2/32 -m comment --comment "a b" -j X
-I X -j RETURN
COMMIT
`)
})

test("a removal takes the rules that lead to a chain, then what is in it, then the chain", () => {
  expect(printRestore("nat", removalChanges({ rules: [jump], chains: ["X"] }))).toBe(`*nat
-D POSTROUTING -s 10.1.0.2/32 -m comment --comment "a b" -j X
-F X
-X X
COMMIT
`)
})
