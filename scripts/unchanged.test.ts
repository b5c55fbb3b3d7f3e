import { expect, test } from "bun:test"
import { mkdir, rm, writeFile } from "node:fs/promises"
import { execa } from "execa"
import { TemporaryDirectory } from "../integration/lab/mod.ts"
import { inputsOf, isUnchanged, noteBuild } from "./unchanged.ts"

async function checkout(): Promise<TemporaryDirectory> {
  const directory = await TemporaryDirectory.create("cni-unchanged")
  await execa("git", ["init", "--quiet"], { cwd: directory.path })
  await writeFile(directory.join(".gitignore"), "dist/\n")
  await writeFile(directory.join("source"), "one")
  await mkdir(directory.join("dist/bin"), { recursive: true })
  await writeFile(directory.join("dist/bin/bridge"), "built")
  await writeFile(directory.join("dist/cni"), "built, too")
  return directory
}

const names = ["bin", "cni"]

test("what was built from the same files is unchanged, with further files in the directory of the build, too", async () => {
  await using place = await checkout()
  const inputs = await inputsOf(place.path)
  expect(isUnchanged(place.join("dist"), names, inputs)).toBe(false) // no build is recorded
  noteBuild(place.join("dist"), names, inputs)
  await writeFile(place.join("dist/test.log"), "")
  expect(isUnchanged(place.join("dist"), names, await inputsOf(place.path))).toBe(true)
})

test.each<[string, (place: TemporaryDirectory) => Promise<unknown>]>([
  ["a source that was changed", (place) => writeFile(place.join("source"), "two")],
  ["a source that is new", (place) => writeFile(place.join("another"), "")],
  ["a source that is gone", (place) => rm(place.join("source"))],
  ["an executable that was changed", (place) => writeFile(place.join("dist/cni"), "other")],
  ["an executable that is gone", (place) => rm(place.join("dist/bin/bridge"))],
  ["an executable more", (place) => writeFile(place.join("dist/bin/more"), "")],
])("%s is a change", async (_, change) => {
  await using place = await checkout()
  noteBuild(place.join("dist"), names, await inputsOf(place.path))
  await change(place)
  expect(isUnchanged(place.join("dist"), names, await inputsOf(place.path))).toBe(false)
})

test("other settings are a change, and without git nothing is known", async () => {
  await using place = await checkout()
  expect(await inputsOf(place.path, "snapshot")).not.toBe(await inputsOf(place.path, "bytecode"))
  await rm(place.join(".git"), { recursive: true })
  noteBuild(place.join("dist"), names, await inputsOf(place.path))
  expect(isUnchanged(place.join("dist"), names, undefined)).toBe(false)
})
