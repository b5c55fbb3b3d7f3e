import { expect, test } from "bun:test"
import type { Request } from "../netlink/mod.ts"
import { add, commit } from "../nftables/mod.ts"
import { RuleSetKernel } from "../nftables/testing/rule-set-kernel.ts"
import { AF_INET } from "../types/mod.ts"
import { changeKernelTable, removeFromKernelTable, statementsOf } from "./kernel-table.ts"
import { chain, rule } from "./save-restore.ts"

const jump = { chain: "FORWARD", words: ["-m", "comment", "--comment", "why", "-j", "X"] }
const marked = { chain: "X", words: ["-m", "mark", "--mark", "0x1000/0x1000", "-j", "ACCEPT"] }

function sent(one: typeof jump): string {
  const table = { family: "ip", name: "filter" } as const
  const requests: Request[] = []
  const socket = { fd: -1 as never, transact: (all: readonly Request[]) => void requests.push(...all) }
  commit(socket, [add.rule({ chain: { table, name: one.chain }, statements: statementsOf(one) })])
  return requests[1]?.payload.toHex() ?? ""
}

// Captured from `iptables -A X -m comment --comment why`, iptables 1.8.9: NFTA_LIST_ELEM with "match", "comment",
// revision 0, and the 256 bytes of struct xt_comment_info; then a counter. The mark is struct xt_mark_mtinfo1, revision
// 1, as iptables 1.8.7 sends it.
test("rules are written as iptables-nft writes them", () => {
  const comment = `2c0101800a0001006d617463680000001c0102800c000100636f6d6d656e74000800020000000000040103007768790000${"00".repeat(251)}`
  expect(sent(jump)).toContain(comment)
  expect(sent(jump)).toContain("636f756e74657200")
  const mark =
    "090001006d61726b00000000" + "0800020000000001" + "14000300" + "00100000" + "00100000" + "0000000000000000"
  expect(sent(marked)).toContain(mark)
})

test("words that it cannot write are refused", () => {
  for (const words of [
    ["-s", "10.0.0.1/32", "-j", "ACCEPT"],
    ["-m", "conntrack", "--ctstate", "NEW", "-j", "X"],
  ])
    expect(() => statementsOf({ chain: "X", words })).toThrow("Cannot write")
  expect(() => statementsOf({ chain: "X", words: ["-m", "comment", "--comment", "a"] })).toThrow("has no target")
})

test("a table that is missing is made with its chain, in one transaction; nothing to change sends nothing", () => {
  const kernel = new RuleSetKernel({ sets: [] })
  changeKernelTable(kernel.socket, AF_INET, "filter", () => [
    chain.create("X"),
    rule.prepend(jump),
    rule.append(marked),
  ])
  expect(kernel.sent).toEqual([
    [
      'create table ip filter { comment "CNI: a table of iptables"; }',
      "create chain ip filter FORWARD { type filter hook forward priority filter; policy accept; }",
      "create chain ip filter X",
      'insert rule ip filter FORWARD xt match "comment" counter jump X',
      'add rule ip filter X xt match "mark" counter accept',
    ],
  ])
  changeKernelTable(kernel.socket, AF_INET, "filter", () => [])
  removeFromKernelTable(kernel.socket, AF_INET, "filter", () => ({ rules: [], chains: [] }))
  expect(kernel.sent).toHaveLength(1)
})
