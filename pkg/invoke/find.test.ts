import { describe, expect, test } from "bun:test"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { refusalOf } from "../types/testing.ts"
import { buildNote, elf, nameNote, note, ownBuild, PluginDirectory } from "./directory.fixture.ts"
import { builtinOf, requirePlugin, stampOf } from "./find.ts"

describe("requirePlugin", () => {
  test("#126 takes the first directory that holds the plugin", () => {
    using directory = new PluginDirectory()
    const first = directory.script("one/bridge", "")
    directory.script("two/bridge", "")
    const second = directory.script("two/ptp", "")
    const path = `${directory.path}/one:${directory.path}/two/`
    expect(requirePlugin("bridge", path)).toBe(first)
    expect(requirePlugin("ptp", path)).toBe(second)
  })

  test("#127 says when the name, the path or the plugin is missing", () => {
    expect(() => requirePlugin("", "/opt/cni/bin")).toThrow(/^no plugin name provided$/)
    expect(() => requirePlugin("bridge", "")).toThrow(/^no paths provided$/)
    expect(() => requirePlugin("bridge", "/not/there:/nor/there")).toThrow(
      /^failed to find plugin "bridge" in path \[\/not\/there \/nor\/there\]$/,
    )
  })

  test.each(["../bridge", "/bin/sh", "a\\b", ".", "..", "a\0b"])("#128 refuses the name %j [S13]", (name) => {
    expect(() => requirePlugin(name, "/bin")).toThrow("invalid plugin name: ")
  })

  test("#129 skips a directory of that name", () => {
    using directory = new PluginDirectory()
    mkdirSync(join(directory.path, "one/bridge"), { recursive: true })
    const file = directory.script("two/bridge", "")
    expect(requirePlugin("bridge", `${directory.path}/one:${directory.path}/two`)).toBe(file)
  })

  test("#129 skips a device of that name", () => {
    expect(() => requirePlugin("null", "/dev")).toThrow("failed to find plugin")
  })

  test("a path that cannot be read is told apart from one that does not exist", () => {
    const findIn = (path: string) => refusalOf(() => requirePlugin("bridge", path))
    const long = `/${"n".repeat(256)}`
    expect(findIn("/not/there").cause).toBeUndefined()
    expect(findIn(`/not/there:${long}`)).toMatchObject({
      message: expect.stringContaining("failed to find plugin"),
      details: expect.stringContaining("ENAMETOOLONG"),
    })
  })

  test("follows links", () => {
    using directory = new PluginDirectory()
    symlinkSync("/bin/sh", join(directory.path, "bridge"))
    expect(requirePlugin("bridge", directory.path)).toBe(join(directory.path, "bridge"))
  })

  test.each([0o744, 0o654, 0o645, 0o100, 0o010, 0o001])(
    "takes a file that all users may execute before others: mode %o",
    (mode) => {
      using directory = new PluginDirectory()
      directory.script("one/bridge", "", 0o666)
      const executable = directory.script("two/bridge", "", mode)
      expect(requirePlugin("bridge", `${directory.path}/one:${directory.path}/two`)).toBe(executable)
    },
  )

  test("does not let a file that cannot be executed shadow one that can", () => {
    using directory = new PluginDirectory()
    const plain = directory.script("one/bridge", "", 0o644)
    const executable = directory.script("two/bridge", "")
    expect(requirePlugin("bridge", `${directory.path}/one:${directory.path}/two`)).toBe(executable)
    expect(requirePlugin("bridge", `${directory.path}/one`)).toBe(plain)
  })

  test.each([":", "::", "bin", ".", "bin:./bin"])(
    "never searches the working directory, as in CNI_PATH %j [S14]",
    (path) => {
      expect(() => requirePlugin("sh", path)).toThrow("no paths provided")
    },
  )

  test("names what is not absolute in a CNI_PATH with nothing else", () => {
    const without = 'CNI_PATH holds no absolute directory to search for plugin "sh"'
    for (const [path, details] of [
      ["bin:./lib", `${without}; not absolute: "bin:./lib"`],
      ["", without],
    ] as const)
      expect(() => requirePlugin("sh", path)).toThrow(expect.objectContaining({ code: 4, details }))
  })

  test("skips empty and relative directories beside absolute ones [S15]", () => {
    expect(requirePlugin("sh", ":bin:/bin")).toBe("/bin/sh")
  })
})

describe("a plugin in this process", () => {
  const builtin = () => ({ stdout: "", exitCode: 0 })
  const own = ownBuild()
  const other = Buffer.from(own.map((byte) => byte ^ 1))
  const [build, bridge] = [buildNote(own), nameNote("bridge")]
  const executable = elf(build, bridge)

  test.each<[string, Uint8Array, boolean]>([
    ["the plugin of this build", executable, true],
    ["its notes in another order", elf(bridge, build), true],
    ["beside another note of GNU", elf(build, note("GNU", 1, Buffer.alloc(16)), bridge), true],
    ["another build's", elf(buildNote(other), bridge), false],
    ["another plugin", elf(build, nameNote("ptp")), false],
    ["a name that every object has", elf(build, nameNote("toString")), false],
    ["no name", elf(build), false],
    ["no build's id", elf(bridge), false],
    ["notes that end too early", elf(build, bridge.subarray(0, -16)), false],
    ["too few bytes for a header", executable.subarray(0, 63), false],
    ["no executable", Buffer.from("#!/bin/sh\n"), false],
  ])("goes by what a file is, under any name: %s", (_what, bytes, isBridge) => {
    using directory = new PluginDirectory()
    for (const file of ["bridge", "cnv-bridge", "ptp"]) {
      const path = join(directory.path, file)
      writeFileSync(path, bytes)
      expect(builtinOf(stampOf(path), { bridge: builtin, sbr: () => builtin() }) === builtin).toBe(isBridge)
    }
  })

  test("does not run in place of a file that does not exist", () => {
    expect(builtinOf(stampOf("/not/there/bridge"), { bridge: builtin })).toBeUndefined()
  })
})
