import { expect, test } from "bun:test"
import { basename, dirname, join } from "node:path"
import { newestVersion, supportedVersions } from "../pkg/types/mod.ts"
import { pluginNames } from "./plugins.ts"

/** Runs a program of this repository under a name. */
function run(file: string, name: string, env: Record<string, string>) {
  const { stdout, stderr, exitCode } = Bun.spawnSync([process.execPath, file], { argv0: name, env })
  return { out: stdout.toString(), err: stderr.toString(), exitCode }
}

/** Runs the entry under a name, as a link of the executable would. */
function runAs(name: string, env: Record<string, string> = {}) {
  return run(join(import.meta.dir, "main.ts"), `/opt/cni/bin/${name}`, env)
}

/** The file of each plugin in the repository, by the name of its room. */
function pluginFiles(): Map<string, string> {
  const root = join(import.meta.dir, "..")
  const files = [...new Bun.Glob("{plugins,ipam,meta}/*/main.ts").scanSync(root)]
  return new Map(files.map((file) => [basename(dirname(file)), join(root, file)]))
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
  const { out, ...rest } = runAs("loopback", { CNI_COMMAND: "VERSION" })
  expect(JSON.parse(out)).toEqual({ cniVersion: newestVersion, supportedVersions })
  expect(out).toBe(`${JSON.stringify(JSON.parse(out))}\n`)
  expect(rest).toEqual({ err: "", exitCode: 0 })
})

test("the table has every plugin of the repository, in alphabetical order", () => {
  expect(pluginNames).toEqual([...pluginFiles().keys()].sort())
})

test.each(pluginNames)("%s has the name it is called by, and would itself answer VERSION the same", (name) => {
  expect(runAs(name).err).toStartWith(`CNI plugin ${name} v`)
  const env = { CNI_COMMAND: "VERSION" }
  expect(run(pluginFiles().get(name) ?? "", "bun", env)).toEqual(runAs(name, env))
})

test("the tools answer under their names", () => {
  expect(runAs("cni").out).toContain("cni COMMAND")
  expect(runAs("cnitool").out).toContain("cnitool COMMAND NETWORK NETNS")
})
