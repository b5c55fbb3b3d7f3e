import { expect, test } from "bun:test"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { cni } from "../../cmd/cni/main.ts"
import { TemporaryDirectory } from "../../integration/lab/mod.ts"
import { recordingTerminal } from "../testing.ts"

/** The schemas that the repository has, for editors that get them from there. */
const schemas = join(import.meta.dir, "../../schemas")

async function run(...args: string[]) {
  const terminal = recordingTerminal({})
  return { exitCode: await cni(["schema", ...args], terminal), out: terminal.out, err: terminal.err }
}

test("`cni schema --write schemas` writes every file of the repository's, makes the directory, and tells their number", async () => {
  await using scratch = await TemporaryDirectory.create()
  const directory = scratch.join("a/b")
  const names = (await readdir(schemas)).sort()
  expect(await run("--write", directory)).toEqual({
    exitCode: 0,
    out: `Wrote ${names.length} schemas into ${directory}\n`,
    err: "",
  })
  expect((await readdir(directory)).sort()).toEqual(names)
  for (const name of names)
    expect(await Bun.file(join(directory, name)).text()).toBe(await Bun.file(join(schemas, name)).text())
})

test("without --write one schema is printed: that of the plugin, or of a network's list", async () => {
  for (const [words, file] of [
    [[], "conflist.json"],
    [["conflist"], "conflist.json"],
    [["bridge"], "bridge.json"],
  ] as const)
    expect(await run(...words)).toEqual({ exitCode: 0, out: await Bun.file(join(schemas, file)).text(), err: "" })
})

test("--strict refuses keys that the plugin does not know", async () => {
  const [open, strict] = [await run("loopback"), await run("loopback", "--strict")]
  expect([open, strict].map(({ out }) => JSON.parse(out).additionalProperties)).toEqual([undefined, false])
})
