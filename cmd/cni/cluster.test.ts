import { afterEach, expect, test } from "bun:test"
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { recordingTerminal } from "../../tools/testing.ts"
import { cni } from "./main.ts"

const directories: string[] = []
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true })
})

/** A directory with a program that prints what it was called with, and ends with exit code 3. */
function directoryWithAgent(): string {
  const directory = mkdtempSync(join(tmpdir(), "cni-agent-"))
  directories.push(directory)
  writeFileSync(join(directory, "cni-agent"), '#!/bin/sh\nprintf "%s\\n" "$@"; echo loud >&2; exit 3\n')
  chmodSync(join(directory, "cni-agent"), 0o755)
  return directory
}

async function run(PATH: string, ...args: string[]) {
  const terminal = recordingTerminal({ PATH })
  return { code: await cni(args, terminal), out: terminal.out, err: terminal.err }
}

test.each([
  [["ipam", "pool", "create", "pods", "--prefix", "10.64.0.0/16", "-o", "json"], undefined],
  [["ipam", "blocks", "--help"], undefined],
  [["ipam", "release-node", "node-7", "--dry-run"], undefined],
  [
    ["ipam", "ls", "--cluster", "-o", "wide"],
    ["ipam", "ls", "--output=wide", "--cluster"],
  ],
] as const)("%p goes to cni-agent with its words and flags, and its exit code comes back", async (words, expected) => {
  const { code, out, err } = await run(`${directoryWithAgent()}:/usr/bin:/bin`, ...words)
  expect({ code, err }).toEqual({ code: 3, err: "loud\n" })
  expect(out.trim().split("\n").sort()).toEqual([...(expected ?? words)].sort())
})

test("without cni-agent there is one error, which says where it is looked for", async () => {
  expect(await run("/nowhere", "ipam", "pool", "ls")).toEqual({
    code: 1,
    out: "",
    err: 'cni ipam pool: Cannot run "cni-agent ipam pool ls": "cni-agent" is neither beside cni nor in PATH; it has the clients of the cluster\'s stores\n',
  })
})
