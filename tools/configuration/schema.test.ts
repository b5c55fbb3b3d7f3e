import { expect, test } from "bun:test"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { cni } from "../../cmd/cni/main.ts"
import { TemporaryDirectory } from "../../integration/lab/mod.ts"
import { pluginNames } from "../../suite/plugins.ts"
import { recordingTerminal } from "../testing.ts"

async function run(...args: string[]) {
  const terminal = recordingTerminal({})
  return { exitCode: await cni(["schema", ...args], terminal), out: terminal.out, err: terminal.err }
}

test("--write makes the directory, writes the schema of lists and of each plugin as they are printed, and reports their number", async () => {
  await using scratch = await TemporaryDirectory.create()
  const directory = scratch.join("a/b")
  const names = ["conflist", ...pluginNames].sort()
  expect(await run("--write", directory)).toEqual({
    exitCode: 0,
    out: `Wrote ${names.length} schemas into ${directory}\n`,
    err: "",
  })
  expect((await readdir(directory)).sort()).toEqual(names.map((name) => `${name}.json`))
  for (const name of names) expect(await Bun.file(join(directory, `${name}.json`)).text()).toBe((await run(name)).out)
})

test("without --write one schema is printed: that of the plugin, or of a network's list", async () => {
  const list = "CNI network configuration list"
  for (const [words, title] of [
    [[], list],
    [["conflist"], list],
    [["bridge"], "Configuration of the CNI plugin bridge"],
  ] as const) {
    const { exitCode, out, err } = await run(...words)
    expect({ exitCode, title: JSON.parse(out).title, err }).toEqual({ exitCode: 0, title, err: "" })
  }
})

test("--strict refuses keys that the plugin does not know", async () => {
  const [open, strict] = [await run("loopback"), await run("loopback", "--strict")]
  expect([open, strict].map(({ out }) => JSON.parse(out).additionalProperties)).toEqual([undefined, false])
})
