import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import { PluginDirectory } from "../invoke/directory.fixture.ts"
import type { Builtins } from "../invoke/mod.ts"
import { outer, pool } from "./delegation.fixture.ts"
import { attachment } from "./plugin.fixture.ts"
import { serve } from "./serve.ts"

// In one directory "pool" is a program of its own. In the other it is a plugin of the build that runs this test.
const directories = { apart: new PluginDirectory(), together: new PluginDirectory() }
const [apart, together] = [directories.apart.path, directories.together.path]

beforeAll(() => {
  directories.apart.script("pool", `exec ${process.execPath} ${join(import.meta.dir, "delegation.fixture.ts")}`)
  for (const name of ["pool", "outer"]) directories.together.ownPlugin(name, name)
})

afterAll(() => {
  for (const directory of Object.values(directories)) directory[Symbol.dispose]()
})

function run(command: string, config: object, path: string) {
  const log: string[] = []
  const stdin = new TextEncoder().encode(JSON.stringify(config))
  const env = { ...attachment, CNI_COMMAND: command, CNI_PATH: path }
  const surroundings = { env, stdin: () => stdin, log: (line: string) => void log.push(line) }
  const builtins: Builtins = {
    pool: (call) => serve(pool, { env: call.env, stdin: () => call.stdin, log: surroundings.log }),
  }
  return { ...serve(outer, { ...surroundings, builtinsOn: () => builtins }), log }
}

test("the delegates of a process are called there, and by one another", async () => {
  const env = { ...attachment, CNI_COMMAND: "ADD", CNI_PATH: together }
  const stdin = new TextEncoder().encode('{"cniVersion":"1.1.0","name":"lab"}')
  const fixture = join(import.meta.dir, "delegation.fixture.ts")
  const child = Bun.spawn([process.execPath, fixture, "above"], { env, stdin, stdout: "pipe", stderr: "pipe" })
  expect(JSON.parse(await child.stdout.text())).toMatchObject({ ips: [{ address: "192.0.2.7/24" }] })
  expect(await child.stderr.text()).toBe("pool: leasing\n") // no output of Bun, to which both names lead
  expect(await child.exited).toBe(0)
})

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
