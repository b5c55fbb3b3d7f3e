import { expect, test } from "bun:test"
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { AF_INET, CniError } from "../types/mod.ts"
import { refusalOf } from "../types/testing.ts"
import type { Programs } from "./programs.ts"
import { readTable, refusal, restoreTable } from "./run.ts"
import { chain } from "./save-restore.ts"

function refusalBy(script: string): CniError {
  const directory = mkdtempSync(join(tmpdir(), "cni-iptables-"))
  const program = join(directory, "iptables-restore")
  writeFileSync(program, `#!/bin/sh\n${script}\n`)
  chmodSync(program, 0o755)
  const programs: Programs = { family: AF_INET, save: program, restore: program }
  try {
    restoreTable(programs, "nat", [chain.create("CNI-lab")])
  } catch (error) {
    if (error instanceof CniError) return error
    throw error
  } finally {
    rmSync(directory, { recursive: true })
  }
  throw new Error("nothing was thrown")
}

// xtables_main and xtables_lock of iptables 1.8: RESOURCE_PROBLEM is 4.
test("#43 tables that others hold for too long are code 11", () => {
  const words = "Another app is currently holding the xtables lock; waited 20s for it to become available."
  expect(refusalBy(`cat >/dev/null; echo "${words}" >&2; exit 4`)).toMatchObject({
    code: 11,
    message: expect.stringContaining("holding the xtables lock"),
  })
})

test("a change that is refused will be refused again: code 999", () => {
  expect(refusalBy("cat >/dev/null; echo 'iptables-restore: line 2 failed' >&2; exit 1")).toMatchObject({ code: 999 })
})

test.each([
  ["kill -TERM $$", { code: 999, message: /^Cannot run \S+iptables-restore: signal SIGTERM ended it$/, details: "" }],
  ["echo why >&2; kill -KILL $$", { code: 999, message: /: signal SIGKILL ended it$/, details: "why" }],
])("a program that ends by %j is told with what it said", (script, { code, message, details }) => {
  const refused = refusalBy(script)
  expect({ code: refused.code, details: refused.details ?? "" }).toEqual({ code, details })
  expect(refused.message).toMatch(message)
})

test.each([
  ["exec sleep 60", { timeoutMs: 20, outputLimit: 99 }, 11, "it did not end within 20 ms"],
  ["echo 12345678901; exec sleep 60", { timeoutMs: 30_000, outputLimit: 11 }, 999, "it wrote more than 11 bytes"],
] as const)("a program that does %j is killed: %j", (script, limits, code, why) => {
  const directory = mkdtempSync(join(tmpdir(), "cni-iptables-"))
  const save = join(directory, "iptables-save")
  writeFileSync(save, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  try {
    const refused = refusalOf(() => readTable({ family: AF_INET, save, restore: save }, "nat", limits))
    expect(refused).toMatchObject({ code, message: `Cannot run ${save}: ${why}` })
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test("a program that does not exist is told by its path, with the cause", () => {
  const programs: Programs = { family: AF_INET, save: "/nowhere/save", restore: "/nowhere/restore" }
  expect(refusalOf(() => readTable(programs, "nat"))).toMatchObject({
    code: 999,
    message: "Cannot run /nowhere/save",
    details: expect.stringContaining("ENOENT"),
  })
  expect(refusalOf(() => restoreTable(programs, "nat", [chain.create("X")])).message).toBe(
    "Cannot run /nowhere/restore",
  )
})

test("a table that cannot be read is told with what the program said, and what the kernel has to have", () => {
  const programs: Programs = { family: AF_INET, save: "/bin/ls", restore: "/bin/false" }
  expect(refusalOf(() => readTable(programs, "mangle"))).toMatchObject({
    code: 999,
    message: expect.stringMatching(/^Cannot read table mangle by \/bin\/ls: .*mangle/s),
    details: "the kernel needs table mangle",
  })
})

const input = `*nat
:X - [0:0]
-A X -m foo -j ACCEPT
-A X -m mark --mark 0x1 -j MASQUERADE
COMMIT
`
const textOf = (stderr: string) => String(refusal("Cannot change table nat", { table: "nat", stderr, input }))

// The messages of iptables 1.8.9.
test.each([
  [
    "iptables-nft without an extension",
    "# Warning: iptables-legacy tables present, use iptables-legacy to see them\niptables-restore v1.8.9 (nf_tables): Couldn't load match `foo':No such file or directory\n\nError occurred at line: 3\nTry `iptables-restore -h' or 'iptables-restore --help' for more information.\n",
    "Cannot change table nat: \"-A X -m foo -j ACCEPT\" was refused: Couldn't load match `foo':No such file or directory; the kernel needs table nat, match foo, target ACCEPT",
  ],
  [
    "iptables-nft when the kernel refuses a rule",
    "iptables-restore v1.8.9 (nf_tables): \nline 4: RULE_APPEND failed (Invalid argument): rule in chain X\n",
    'Cannot change table nat: "-A X -m mark --mark 0x1 -j MASQUERADE" was refused: RULE_APPEND failed (Invalid argument): rule in chain X; the kernel needs table nat, match mark, target MASQUERADE',
  ],
  [
    "iptables-legacy when the kernel refuses the table",
    "iptables-restore: line 5 failed\n",
    'Cannot change table nat: "COMMIT" was refused; the kernel needs table nat, match foo, target ACCEPT, match mark, target MASQUERADE',
  ],
  [
    "iptables-legacy without the table",
    "iptables-legacy-restore v1.8.9 (legacy): iptables-restore: unable to initialize table 'nat'\n\nError occurred at line: 1\n",
    "Cannot change table nat: \"*nat\" was refused: iptables-restore: unable to initialize table 'nat'; the kernel needs table nat",
  ],
  [
    "a program that speaks of its advice, and of several things",
    "iptables-restore: Bad value, Error occurred at once\n  \nip6tables-restore v1.8.9 (nf_tables): see # Warning, Try `man'\n",
    "Cannot change table nat: Bad value, Error occurred at once; see # Warning, Try `man'; the kernel needs table nat, match foo, target ACCEPT, match mark, target MASQUERADE",
  ],
  [
    "a program that says nothing",
    "",
    "Cannot change table nat; the kernel needs table nat, match foo, target ACCEPT, match mark, target MASQUERADE",
  ],
])("the error of %s has the line and the reason", (_, stderr, text) => {
  expect(textOf(stderr)).toBe(text)
})
