import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Builtins } from "../invoke/mod.ts"
import { outer, pool } from "./delegation.fixture.ts"
import { attachment } from "./plugin.fixture.ts"
import { serve } from "./serve.ts"

// In one directory "pool" is a program of its own, in the other it leads to the executable that runs this test.
const apart = mkdtempSync(join(tmpdir(), "cni-skel-test-"))
const together = mkdtempSync(join(tmpdir(), "cni-skel-test-"))

beforeAll(() => {
  const script = join(apart, "pool")
  writeFileSync(script, `#!/bin/sh\nexec ${process.execPath} ${join(import.meta.dir, "delegation.fixture.ts")}\n`)
  chmodSync(script, 0o755)
  symlinkSync(process.execPath, join(together, "pool"))
})

afterAll(() => {
  for (const directory of [apart, together]) rmSync(directory, { recursive: true })
})

function run(command: string, config: object, path: string) {
  const log: string[] = []
  const stdin = new TextEncoder().encode(JSON.stringify(config))
  const env = { ...attachment, CNI_COMMAND: command, CNI_PATH: path }
  const surroundings = { env, stdin: () => stdin, log: (line: string) => void log.push(line) }
  const builtins: Builtins = {
    pool: (call) => serve(pool, { env: call.env, stdin: () => call.stdin, log: surroundings.log }),
  }
  return { ...serve(outer, { ...surroundings, builtins }), log }
}

describe("a delegate answers the same byte for byte inside this process and in one of its own", () => {
  const network = { name: "lab", type: "outer", "cni.dev/attachments": [] }

  test.each(["0.1.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])("for ADD in version %s", (cniVersion) => {
    const inside = run("ADD", { ...network, cniVersion }, together)
    expect(inside).toEqual(run("ADD", { ...network, cniVersion }, apart))
    expect(inside).toMatchObject({ exitCode: 0, log: ["pool: leasing"] })
  })

  test.each(["DEL", "CHECK", "STATUS", "GC"])("for %s", (command) => {
    const inside = run(command, { ...network, cniVersion: "1.1.0" }, together)
    expect(inside).toEqual(run(command, { ...network, cniVersion: "1.1.0" }, apart))
    expect(inside).toMatchObject({ stdout: "", exitCode: 0 })
  })

  test.each(["ADD", "DEL", "CHECK", "STATUS", "GC"])("when %s fails", (command) => {
    const config = { ...network, cniVersion: "1.1.0", ipam: { type: "pool", failing: [command] } }
    const inside = run(command, config, together)
    expect(inside).toEqual(run(command, config, apart))
    const error = { cniVersion: "1.1.0", code: 101, msg: `no ${command} <&> here`, details: "é" }
    expect(JSON.parse(inside.stdout)).toEqual(error)
  })
})
