import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { engine } from "../engine/mod.ts"
import { makeTemporaryDirectory, readDirectory, readEntries } from "./directories.ts"
import { createFile, realPath, replaceFile, writeFile } from "./files.ts"
import { exists, statFileSystem } from "./stat.ts"

let directory = ""
beforeAll(() => {
  directory = mkdtempSync(join(realpathSync(tmpdir()), "libc-replace-"))
})
afterAll(() => rmSync(directory, { recursive: true }))

describe("a file is written", () => {
  test("whole, in place of what was in it", () => {
    const file = join(directory, "written")
    writeFile(file, "a long text", 0o600)
    writeFile(file, "short ü")
    expect(readFileSync(file, "utf8")).toBe("short ü")
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(() => writeFile(join(directory, "missing/file"), "")).toThrow("ENOENT")
  })

  test("in one step: a reader of the old one keeps it", () => {
    const file = join(directory, "replaced")
    writeFileSync(file, "old")
    const { ino } = statSync(file)
    replaceFile(file, new Uint8Array([110, 101, 119]), 0o640)
    expect(readFileSync(file, "utf8")).toBe("new")
    expect(statSync(file).ino).not.toBe(ino)
    expect(statSync(file).mode & 0o777).toBe(0o640)
    expect(readdirSync(directory).filter((name) => name.includes("replaced"))).toEqual(["replaced"])
  })

  test("or nothing of it is left", () => {
    mkdirSync(join(directory, "taken/inside"), { recursive: true })
    expect(() => replaceFile(join(directory, "taken"), "text")).toThrow("EISDIR")
    expect(readdirSync(directory).filter((name) => name.includes("taken"))).toEqual(["taken"])
  })

  test("or nothing of it is left, where the disk gets full", () => {
    const door = engine as { write: typeof engine.write }
    const { write } = door
    let writes = 0
    door.write = (fd, bytes) => (writes++ === 0 ? write(fd, bytes.subarray(0, 3)) : -28) // ENOSPC
    try {
      writeFileSync(join(directory, "full"), "before")
      expect(() => replaceFile(join(directory, "full"), "after this")).toThrow("ENOSPC")
      writes = 0
      expect(() => createFile(join(directory, "full-2"), new Uint8Array(8))).toThrow("ENOSPC")
    } finally {
      door.write = write
    }
    expect(readdirSync(directory).filter((name) => name.includes("full"))).toEqual(["full"])
    expect(readFileSync(join(directory, "full"), "utf8")).toBe("before")
  })
})

test("temporary directories are their owner's, each another", () => {
  const made = [1, 2].map(() => makeTemporaryDirectory(join(directory, "mine-")))
  expect(new Set(made).size).toBe(2)
  for (const path of made) expect(statSync(path).mode & 0o777).toBe(0o700)
  expect(readDirectory(directory).filter((name) => /^mine-[0-9a-f]{8}$/.test(name))).toHaveLength(2)
})

describe("a path", () => {
  test("without symbolic links is what realpath says", () => {
    mkdirSync(join(directory, "to/here"), { recursive: true })
    symlinkSync("to", join(directory, "from"))
    expect(realPath(join(directory, "from/../from/here"))).toBe(join(directory, "to/here"))
    expect(() => realPath(join(directory, "nothing"))).toThrow("ENOENT")
  })

  test("names something or not", () => {
    symlinkSync("nothing", join(directory, "dangling"))
    const at = (name: string) => exists(join(directory, name))
    expect([at(""), at("dangling"), at("nothing"), at("a\0b")]).toEqual([true, false, false, false])
    expect(exists(`${import.meta.path}/below`)).toBe(false)
  })
})

test("a file system has what statfs(2) says", () => {
  const { bsize, blocks, bavail, files } = statfsSync("/dev/shm")
  const { free, freeFiles, ...found } = statFileSystem("/dev/shm")
  expect(found).toEqual({ isReadOnly: false, size: bsize * blocks, files })
  expect(Math.abs(free - bsize * bavail)).toBeLessThan(64 << 20) // other programs write to the file system too
  expect(freeFiles).toBeLessThanOrEqual(files)
  expect(() => statFileSystem(join(directory, "nothing"))).toThrow("ENOENT")
})

test("what is in a directory is told apart", () => {
  const inside = join(directory, "inside")
  mkdirSync(join(inside, "a directory"), { recursive: true })
  writeFileSync(join(inside, "a file"), "")
  symlinkSync("a directory", join(inside, "a link"))
  expect(readEntries(inside).sort((a, b) => (a.name < b.name ? -1 : 1))).toEqual([
    { name: "a directory", isDirectory: true, isFile: false },
    { name: "a file", isDirectory: false, isFile: true },
    { name: "a link", isDirectory: false, isFile: false },
  ])
  expect(() => readEntries(join(inside, "a file"))).toThrow("ENOTDIR")
})
