import { expect, test } from "bun:test"
import { mkdir, readdir } from "node:fs/promises"
import { dirname, join } from "node:path"
import { type Target, targets } from "../../scripts/engine.ts"
import { muslOf } from "../../scripts/musl.ts"
import { buildEach } from "../../scripts/native.ts"
import { builtPlugins, TemporaryDirectory } from "../lab/mod.ts"

/** Returns the object files and archive members in an executable, from the linker's map. */
async function linkedInto(map: string): Promise<string[]> {
  const text = await Bun.file(map).text()
  const [, members = ""] = /^Archive member included.*?\n\n(.*?)\n\n/ms.exec(text) ?? []
  const files = [...text.matchAll(/^LOAD (\S+)$/gm)].map(([, file = ""]) => file).filter((file) => !file.endsWith(".a"))
  return [...files, ...[...members.matchAll(/^(\S+\.a\(\S+\))/gm)].map(([, member = ""]) => member)]
}

/** Returns the linked objects of the compiler, which are neither ours nor musl's. */
async function fromCompiler(target: Target): Promise<Set<string>> {
  await using directory = await TemporaryDirectory.create("cni-linked", dirname(builtPlugins))
  await mkdir(directory.join("maps"))
  const { libraries } = await muslOf(target)
  await buildEach(directory.join("bin"), { target, flags: [`-Wl,-Map=${directory.join("maps")}`] }, "snapshot", [
    "bridge",
  ])
  const maps = await readdir(directory.join("maps"))
  expect(maps.length).toBeGreaterThanOrEqual(3)
  const all = (await Promise.all(maps.map((map) => linkedInto(directory.join("maps", map))))).flat()
  expect(all.filter((file) => file.startsWith(join(libraries, "libc.a("))).length).toBeGreaterThan(100)
  const others = all.filter((file) => !file.startsWith(`${libraries}/`) && !/\.[cS]\.o$|\/cc\w+\.o$/.test(file))
  expect(others.filter((file) => !file.includes("/gcc"))).toEqual([])
  return new Set(others.map((file) => file.replace(/.*\/(lib\w+\.a)\(.*/, "$1").replace(/.*\//, "")))
}

test("for amd64 the linker takes musl, and of the compiler start files alone", async () => {
  expect([...(await fromCompiler(targets.amd64))].filter((file) => !/^crt\w+\.o$/.test(file))).toEqual([])
})

test("for arm64 the linker takes musl, and of the compiler start files and libgcc", async () => {
  expect([...(await fromCompiler(targets.arm64))].filter((file) => !/^crt\w+\.o$/.test(file))).toEqual(["libgcc.a"])
})
