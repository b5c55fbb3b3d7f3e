import { expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { NetlinkSocket } from "../netlink/mod.ts"
import { refusing } from "../nftables/testing.ts"
import { AF_INET, AF_INET6 } from "../types/mod.ts"
import { refusalOf } from "../types/testing.ts"
import { isTableInUse, narrow, removeEverywhere } from "./everywhere.ts"

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

test("a table is in use where nf_tables has one of its name, or where either family has it of the older kind", () => {
  const directory = mkdtempSync(join(tmpdir(), "cni-iptables-"))
  try {
    const list = (name: string, text: string) => {
      writeFileSync(join(directory, name), text)
      return join(directory, name)
    }
    const [nat, others] = [list("nat", "mangle\nnat\n"), list("others", "mangle\nnat6\n")]
    const absent = join(directory, "absent")
    const inUse = (four: string, six: string, native?: boolean) =>
      isTableInUse(native === undefined ? undefined : { hasTable: (name) => native && name === "nat" }, "nat", {
        [AF_INET]: four,
        [AF_INET6]: six,
      })
    expect(inUse(nat, absent)).toBe(true)
    expect(inUse(absent, nat, false)).toBe(true)
    expect(inUse(absent, others, true)).toBe(true)
    expect(inUse(others, absent, false)).toBe(false)
    expect(() => inUse(directory, absent)).toThrow("EISDIR")
  } finally {
    rmSync(directory, { recursive: true })
  }
})

const removeBy = (socket: NetlinkSocket | undefined, list: string) =>
  removeEverywhere(
    { socket, table: "mangle", lists: { [AF_INET]: list, [AF_INET6]: list } },
    { chains: ["CNI-a"], parents: ["POSTROUTING"] },
    () => ({ rules: [], chains: [] }),
  )

test("a kernel that refuses to say what is there is told as the removal that failed", () => {
  const socket = refusing("EPERM") as NetlinkSocket
  expect(refusalOf(() => removeBy(socket, "/nowhere"))).toMatchObject({
    message: "Cannot remove rules from table mangle of nf_tables",
    details: expect.stringContaining("EPERM"),
  })
})

test("tables of the older kind that cannot be looked at are told as the removal that failed, of each family", () => {
  expect(
    refusalOf(() => removeBy(undefined, "/"))
      .message.split("\n")
      .join(" "),
  ).toMatch(/Cannot remove rules from the legacy table mangle.*Cannot remove rules from the legacy table mangle/)
  expect(() => removeBy(undefined, "/nowhere")).not.toThrow()
})
