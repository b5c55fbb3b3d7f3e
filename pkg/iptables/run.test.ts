import { expect, test } from "bun:test"
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { CniError } from "../types/mod.ts"
import { chain } from "./change.ts"
import type { Programs } from "./programs.ts"
import { restoreTable } from "./run.ts"

/** What `restoreTable` throws when the program behaves as the shell script says. */
function refusal(script: string): CniError {
  const directory = mkdtempSync(join(tmpdir(), "cni-iptables-"))
  const program = join(directory, "iptables-restore")
  writeFileSync(program, `#!/bin/sh\n${script}\n`)
  chmodSync(program, 0o755)
  const programs: Programs = { family: "ip", save: program, restore: program }
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

// xtables_main and xtables_lock of iptables 1.8: RESOURCE_PROBLEM is 4
test("#43 tables that others hold for too long are code 11", () => {
  const words = "Another app is currently holding the xtables lock; waited 20s for it to become available."
  expect(refusal(`cat >/dev/null; echo "${words}" >&2; exit 4`)).toMatchObject({
    code: 11,
    message: expect.stringContaining("holding the xtables lock"),
  })
})

test("a change that is refused will be refused again: code 999", () => {
  expect(refusal("cat >/dev/null; echo 'iptables-restore: line 2 failed' >&2; exit 1")).toMatchObject({ code: 999 })
})
