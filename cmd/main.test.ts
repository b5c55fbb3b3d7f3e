import { expect, test } from "bun:test"
import { basename, dirname, join } from "node:path"
import { newestVersion, supportedVersions } from "../pkg/types/mod.ts"
import { pluginNames } from "../suite/plugins.ts"

function run(file: string, name: string, env: Record<string, string> = {}) {
  const { stdout, stderr, exitCode } = Bun.spawnSync([process.execPath, file], { argv0: name, env })
  return { out: stdout.toString(), err: stderr.toString(), exitCode }
}

/** Returns the file of each plugin in the repository, by the name of its directory. */
function pluginFiles(): Map<string, string> {
  const root = join(import.meta.dir, "..")
  const files = [...new Bun.Glob("{plugins,ipam,meta}/*/main.ts").scanSync(root)]
  return new Map(files.map((file) => [basename(dirname(file)), join(root, file)]))
}

test("the table has every plugin of the repository, in alphabetical order", () => {
  expect(pluginNames).toEqual([...pluginFiles().keys()].sort())
})

test.each(pluginNames)("%s is a plugin by itself: bun main.ts", (name) => {
  const file = pluginFiles().get(name) ?? ""
  const { out, ...rest } = run(file, "bun", { CNI_COMMAND: "VERSION" })
  expect(JSON.parse(out)).toEqual({ cniVersion: newestVersion, supportedVersions })
  expect(out).toBe(`${JSON.stringify(JSON.parse(out))}\n`)
  expect(rest).toEqual({ err: "", exitCode: 0 })
})

test("the tools answer under their names", () => {
  const main = join(import.meta.dir, "main.ts")
  expect(run(main, "/usr/bin/cni").out).toContain("cni COMMAND")
  expect(run(main, "/usr/bin/cnitool").out).toContain("cnitool COMMAND NETWORK NETNS")
})
