import { expect, test } from "bun:test"
import { join } from "node:path"
import { serve } from "../pkg/skel/mod.ts"
import { plugins } from "./plugins.ts"
import { versionReply } from "./version.ts"

/** Runs the entry under a name, as a link of the executable would. */
function runAs(name: string, env: Record<string, string> = {}) {
  const entry = join(import.meta.dir, "main.ts")
  const { stdout, stderr, exitCode } = Bun.spawnSync([process.execPath, entry], { argv0: `/opt/cni/bin/${name}`, env })
  return { out: stdout.toString(), err: stderr.toString(), exitCode }
}

test("an unknown name is an error object for a runtime and a sentence for a human", () => {
  const runtime = runAs("frob", { CNI_COMMAND: "ADD" })
  expect(runtime.exitCode).toBe(1)
  expect(JSON.parse(runtime.out)).toMatchObject({ code: 4, msg: 'Cannot act as "frob": no such plugin or tool' })
  const human = runAs("frob")
  expect([human.exitCode, human.out]).toEqual([1, ""])
  expect(human.err).toContain("cni --help")
})

test("names of JavaScript's own objects are no plugins", () => {
  expect(runAs("constructor").err).toContain('Cannot act as "constructor"')
})

test("VERSION is answered on one line, without loading the plugin and without touching stdin", () => {
  expect(runAs("loopback", { CNI_COMMAND: "VERSION" })).toEqual({ out: `${versionReply()}\n`, err: "", exitCode: 0 })
})

test("every plugin would itself answer VERSION the same", async () => {
  for (const load of Object.values(plugins)) {
    const stdin = () => new Uint8Array()
    const reply = serve(await load(), { env: { CNI_COMMAND: "VERSION" }, stdin, log: () => {} })
    expect(JSON.parse(reply.stdout)).toEqual(JSON.parse(versionReply()))
  }
})

test("every plugin of the table has the name it is called by", async () => {
  for (const [name, load] of Object.entries(plugins)) expect((await load()).name).toBe(name)
})

test("the tools answer under their names", () => {
  expect(runAs("cni").out).toContain("cni COMMAND")
  expect(runAs("cnitool").out).toContain("cnitool COMMAND NETWORK NETNS")
})
