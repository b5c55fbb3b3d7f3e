import { describe, expect, test } from "bun:test"
import { mkdirSync, statSync, symlinkSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { FileDescriptor, Open, readAt } from "../libc/mod.ts"
import { refusalOf } from "../types/testing.ts"
import { PluginDirectory } from "./directory.fixture.ts"
import { builtinAt, requirePlugin } from "./find.ts"

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

  test("what cannot be looked at is told from what is not there", () => {
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

function beginOf(path: string): Buffer {
  using file = FileDescriptor.open(path, Open.ReadOnly)
  const bytes = Buffer.alloc(4096)
  readAt(file.fd, bytes, 0)
  return bytes
}

describe("a plugin in this process", () => {
  const builtin = () => ({ stdout: "", exitCode: 0 })
  // elf(5): a note has its owner's name, "GNU\0", before what it says; the last one is the build's id
  const size = statSync("/proc/self/exe").size
  const begin = beginOf("/proc/self/exe")
  const id = begin.lastIndexOf("GNU\0") + 4

  /** Whether it runs in the place of a file that begins as this executable does, but for some bytes, and is of that size. */
  function runsInPlaceOf(changed: readonly number[], length: number): boolean {
    using directory = new PluginDirectory()
    const path = join(directory.path, "bridge")
    const bytes = Uint8Array.from(begin, (byte, at) => (changed.includes(at) ? byte ^ 1 : byte))
    writeFileSync(path, bytes)
    truncateSync(path, length)
    return builtinAt(path, { bridge: builtin }) === builtin
  }

  test.each([
    ["the same notes", [], size, true],
    ["other bytes than the notes'", [4000], size, true],
    ["another id", [id], size, false],
    ["an id that ends otherwise", [id + 7], size, false],
    ["another first note", [begin.indexOf("GNU\0") + 4], size, false],
    ["another size, as of a file that starts in another way", [], size + 1, true],
    ["too few bytes for a header", [], 63, false],
    ["a table of headers that lies elsewhere", [39], size, false],
  ])("is told from another file by build: %s", (_what, changed, length, same) => {
    expect(runsInPlaceOf(changed, length)).toBe(same)
  })

  test("runs in the place of a file of the same build, of its own name", () => {
    using directory = new PluginDirectory()
    symlinkSync("/proc/self/exe", join(directory.path, "bridge"))
    expect(builtinAt(join(directory.path, "bridge"), { bridge: builtin })).toBe(builtin)
    expect(builtinAt(join(directory.path, "bridge"), { ptp: builtin })).toBeUndefined()
    symlinkSync("/proc/self/exe", join(directory.path, "toString"))
    expect(builtinAt(join(directory.path, "toString"), { bridge: builtin })).toBeUndefined()
    for (const other of [join(directory.path, "not/there/bridge"), directory.script("one/bridge", ""), "/bin/cat"])
      expect(builtinAt(other, { bridge: builtin, cat: builtin })).toBeUndefined()
  })
})
