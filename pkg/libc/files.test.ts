import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { engine } from "../engine/mod.ts"
import { FileDescriptor, Open } from "./descriptor.ts"
import { makeDirectories, readDirectory, removeDirectory } from "./directories.ts"
import {
  changeMode,
  createFile,
  findAttribute,
  findFile,
  link,
  readAt,
  readFile,
  readlink,
  readTextFile,
  readToEnd,
  rename,
  setAttribute,
  setModified,
  sha256OfFile,
  sync,
  syncPath,
  truncate,
  tryUnlink,
  tryUnnamedFile,
  unlink,
  writeAt,
  writeExisting,
} from "./files.ts"
import { findStat, isDirectory, isRegularFile, isSymlink, stat, statOpen } from "./stat.ts"

let directory = ""
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "libc-files-"))
})
afterAll(() => rmSync(directory, { recursive: true }))

let paths = 0
function fresh(): string {
  return join(directory, `f${paths++}`)
}

function file(content: string | Uint8Array): string {
  const path = fresh()
  writeFileSync(path, content)
  return path
}

describe("reading", () => {
  test("gives all bytes of a file, however many", () => {
    for (const length of [0, 1, 4095, 4096, 4097, 16_384, 100_000]) {
      const content = Uint8Array.from({ length }, (_, at) => at % 251)
      expect(readFile(file(content))).toEqual(content)
    }
  })

  test("gives all of a file of /proc, whose size is 0", () => {
    expect(readTextFile("/proc/version")).toBe(readFileSync("/proc/version", "utf8"))
  })

  test("decodes UTF-8", () => {
    expect(readTextFile(file("Grüße, 世界\n"))).toBe("Grüße, 世界\n")
  })

  test("refuses a file that is longer than the limit with EFBIG", () => {
    const path = file("12345")
    expect(new TextDecoder().decode(readFile(path, 5))).toBe("12345")
    expect(() => readFile(path, 4)).toThrow(`read ${JSON.stringify(path)}: File too large (EFBIG)`)
  })

  test("refuses a FIFO and a device, and does not wait for the other end of a FIFO", () => {
    const fifo = fresh()
    Bun.spawnSync(["mkfifo", fifo])
    for (const path of [fifo, "/dev/null"])
      expect(() => readFile(path)).toThrow(
        `read ${JSON.stringify(path)}, which is not a regular file: Invalid argument (EINVAL)`,
      )
    expect(() => findFile(fifo)).toThrow("EINVAL")
    expect(() => writeExisting(fifo, "text")).toThrow(`open ${JSON.stringify(fifo)}: No such device or address (ENXIO)`)
    expect(() => readFile(directory)).toThrow("EISDIR")
  })

  test("takes 16 MiB and no more unless it is told otherwise", () => {
    const path = file("")
    for (const find of [readFile, findFile]) {
      truncateSync(path, 16_777_216)
      expect(find(path)).toHaveLength(16_777_216)
      truncateSync(path, 16_777_217)
      expect(() => find(path)).toThrow("EFBIG")
    }
  })

  test("of a descriptor stops one byte after the limit, so that the caller sees that there is more", () => {
    for (const [length, limit] of [
      [10, 4],
      [5000, 4500],
      [4096, 4096],
    ] as const) {
      using opened = FileDescriptor.open(file(new Uint8Array(length)), Open.ReadOnly)
      expect(readToEnd(opened.fd, limit).length).toBe(Math.min(length, limit + 1))
    }
  })

  test("a directory or an absent file says so", () => {
    expect(() => readFile(directory)).toThrow("EISDIR")
    const path = fresh()
    expect(() => readFile(path)).toThrow(`open ${JSON.stringify(path)}: No such file or directory (ENOENT)`)
  })

  test("what may be absent is undefined for an absent file only", () => {
    expect(findFile(fresh())).toBeUndefined()
    expect(FileDescriptor.find(fresh())).toBeUndefined()
    expect(findFile(file("here"))).toEqual(new TextEncoder().encode("here"))
    using opened = FileDescriptor.find(file("here"))
    expect(opened && readToEnd(opened.fd, 10)).toEqual(new TextEncoder().encode("here"))
    expect(() => findFile(directory)).toThrow("EISDIR")
    expect(() => findFile(join(file(""), "below"))).toThrow("ENOTDIR")
    expect(() => findFile(file("12345"), 4)).toThrow("EFBIG")
  })

  test("and writing at a place leaves the rest alone", () => {
    const path = file("0123456789")
    using opened = FileDescriptor.open(path, Open.ReadWrite)
    const some = new Uint8Array(3)
    expect(readAt(opened.fd, some, 4)).toBe(3)
    expect(new TextDecoder().decode(some)).toBe("456")
    expect(readAt(opened.fd, some, 10)).toBe(0)
    writeAt(opened.fd, new TextEncoder().encode("ab"), 8)
    writeAt(opened.fd, new TextEncoder().encode("z"), 12)
    truncate(opened.fd, 14)
    sync(opened.fd)
    expect(readFileSync(path, "latin1")).toBe("01234567ab\0\0z\0")
    expect(() => truncate(opened.fd, -1)).toThrow("EINVAL")
  })
})

describe("writing", () => {
  test("makes a new file with its mode, and never touches one that exists", () => {
    const path = fresh()
    createFile(path, new TextEncoder().encode("first"), 0o640)
    expect(statSync(path).mode & 0o777).toBe(0o640 & ~process.umask())
    expect(() => createFile(path, new TextEncoder().encode("second"))).toThrow("EEXIST")
    expect(readFileSync(path, "utf8")).toBe("first")
    const secret = fresh()
    createFile(secret, new TextEncoder().encode("x"))
    expect(statSync(secret).mode & 0o777).toBe(0o600)
  })

  test("a file without a name is tried, and nothing stays of it", () => {
    const path = fresh()
    mkdirSync(path)
    const open = () => readdirSync("/proc/self/fd").length
    const before = open()
    expect(tryUnnamedFile(path)).toBeBoolean() // the result depends on the file system
    expect(readdirSync(path)).toEqual([])
    expect(open()).toBe(before)
  })

  test("goes on where the kernel has taken a part", () => {
    const path = file("x".repeat(20))
    const { write, pwrite } = engine
    Object.assign(engine, {
      write: (fd: number, bytes: Uint8Array) => write(fd, bytes.subarray(0, 3)),
      pwrite: (fd: number, bytes: Uint8Array, at: number) => pwrite(fd, bytes.subarray(0, 3), at),
    })
    try {
      writeExisting(path, "0123456789")
      using opened = FileDescriptor.open(path, Open.ReadWrite)
      writeAt(opened.fd, new TextEncoder().encode("abcdefgh"), 7)
    } finally {
      Object.assign(engine, { write, pwrite })
    }
    expect(readFileSync(path, "utf8")).toBe("0123456abcdefgh")
  })

  test("into an existing file replaces its content, and makes no new file", () => {
    const path = file("a long content")
    writeExisting(path, "short")
    expect(readFileSync(path, "utf8")).toBe("short")
    expect(() => writeExisting(fresh(), "1")).toThrow("ENOENT")
  })
})

describe("names", () => {
  test("rename takes the place of what was there", () => {
    const from = file("new")
    const to = file("old")
    rename(from, to)
    expect(readFileSync(to, "utf8")).toBe("new")
    expect(() => rename(from, to)).toThrow(
      `rename ${JSON.stringify(from)} to ${JSON.stringify(to)}: No such file or directory (ENOENT)`,
    )
  })

  test("link gives the same file a second name, and takes none that is taken", () => {
    const from = file("content")
    const to = fresh()
    link(from, to)
    expect(statSync(to).ino).toBe(statSync(from).ino)
    expect(() => link(from, to)).toThrow("EEXIST")
  })

  test("readlink keeps the text as it is, dangling or not", () => {
    const path = fresh()
    symlinkSync("../nowhere/é", path)
    expect(readlink(path)).toBe("../nowhere/é")
    expect(() => readlink(directory)).toThrow("EINVAL")
  })

  test("unlink removes a name once", () => {
    const path = file("")
    unlink(path)
    expect(() => unlink(path)).toThrow(`unlink ${JSON.stringify(path)}: No such file or directory (ENOENT)`)
    expect(tryUnlink(path)).toBe(false)
    expect(() => tryUnlink(join(file(""), "below"))).toThrow("ENOTDIR")
    const another = file("")
    expect(tryUnlink(another)).toBe(true)
    expect(existsSync(another)).toBe(false)
  })

  test("with a NUL byte are refused by every function that takes a path", () => {
    const good = file("")
    const bad = `${good}\0x`
    const calls = [
      () => stat(bad),
      () => readFile(bad),
      () => findFile(bad),
      () => readTextFile(bad),
      () => writeExisting(bad, ""),
      () => createFile(bad, new Uint8Array()),
      () => rename(bad, good),
      () => rename(good, bad),
      () => link(bad, good),
      () => link(good, bad),
      () => readlink(bad),
      () => unlink(bad),
      () => tryUnlink(bad),
      () => makeDirectories(bad),
      () => removeDirectory(bad),
      () => setModified(bad, 0n),
      () => readDirectory(bad),
      () => syncPath(bad),
    ]
    for (const call of calls) expect(call).toThrow(/: Invalid argument \(EINVAL\)$/)
    expect(readFileSync(good, "utf8")).toBe("")
  })
})

describe("directories", () => {
  test("are made with their parents, and may be there already", () => {
    const path = join(fresh(), "b", "c")
    makeDirectories(path)
    makeDirectories(`${path}/`)
    makeDirectories("/")
    expect(statSync(path).isDirectory()).toBe(true)
    const modeOf = (mode?: number) => {
      const made = fresh()
      makeDirectories(made, mode)
      return statSync(made).mode & 0o777
    }
    expect([modeOf(), modeOf(0o700)]).toEqual([0o755 & ~process.umask(), 0o700])
  })

  test("cannot be made where a file is, nor below it", () => {
    const path = file("")
    expect(() => makeDirectories(path)).toThrow(`mkdir ${JSON.stringify(path)}: File exists (EEXIST)`)
    expect(() => makeDirectories(join(path, "below"))).toThrow("ENOTDIR")
  })

  test("may be reached through a symbolic link", () => {
    const target = fresh()
    mkdirSync(target)
    const path = fresh()
    symlinkSync(target, path)
    makeDirectories(path)
    makeDirectories(join(path, "below"))
    expect(statSync(join(target, "below")).isDirectory()).toBe(true)
  })

  test("list all their names, more than fit into one answer of the kernel, dots left out", () => {
    const path = fresh()
    mkdirSync(path)
    expect(readDirectory(path)).toEqual([])
    // A buffer of 64 KiB holds some 280 names
    const names = Array.from({ length: 400 }, (_, at) => `${"n".repeat(200 + (at % 40))}é${at}`)
    for (const name of names) writeFileSync(join(path, name), "")
    expect(readDirectory(path).sort()).toEqual(names.sort())
    syncPath(path)
    expect(() => removeDirectory(path)).toThrow("ENOTEMPTY")
  })

  test("are removed when they are empty", () => {
    const path = fresh()
    mkdirSync(path)
    removeDirectory(path)
    expect(() => removeDirectory(path)).toThrow("ENOENT")
  })
})

describe("stat", () => {
  test("tells what other programs are told", () => {
    const path = file("content")
    link(path, fresh())
    const { dev, ino, mode, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true })
    const major = (dev >> 8n) & 0xfffn // gnu_dev_major, <bits/sysmacros.h>
    const minor = (dev & 0xffn) | ((dev >> 12n) & 0xffffff00n)
    const { device, inode, mode: bits, size: length, modified, changed } = stat(path)
    expect({ device, inode, mode: bits, size: length, modified, changed }).toEqual({
      device: `${major}:${minor}`,
      inode: ino,
      mode: Number(mode),
      size: Number(size),
      modified: mtimeNs,
      changed: ctimeNs,
    })
  })

  test("tells whose a file is, and what nothing is", () => {
    const { uid, gid } = statSync("/proc/1/stat")
    const { user, group } = stat("/proc/1/stat")
    expect({ user, group }).toEqual({ user: uid, group: gid })
    using opened = FileDescriptor.open(file("12"), Open.ReadOnly)
    expect(statOpen(opened.fd).size).toBe(2)
    expect(findStat(fresh())).toBeUndefined()
    const dangling = fresh()
    symlinkSync("nowhere", dangling)
    expect(findStat(dangling)).toBeUndefined()
    const link = findStat(dangling, true)
    expect(link && [isSymlink(link), isDirectory(link), isRegularFile(link)]).toEqual([true, false, false])
    expect([isSymlink(stat(directory)), isSymlink(stat(file("")))]).toEqual([false, false])
  })

  test("follows symbolic links, unless told not to", () => {
    const path = fresh()
    symlinkSync(directory, path)
    expect(isDirectory(stat(path))).toBe(true)
    expect(isDirectory(stat(path, true))).toBe(false)
    expect(isRegularFile(stat(path, true))).toBe(false)
    expect(isRegularFile(stat(file("")))).toBe(true)
    expect(isRegularFile(stat("/dev/null"))).toBe(false)
  })

  test("sees the modification time that was set, to the nanosecond", () => {
    const path = file("")
    const before = statSync(path, { bigint: true }).atimeNs
    setModified(path, 1_700_000_000_123_456_789n)
    expect(stat(path).modified).toBe(1_700_000_000_123_456_789n)
    expect(statSync(path, { bigint: true })).toMatchObject({ mtimeNs: 1_700_000_000_123_456_789n, atimeNs: before })
  })

  test("of nothing says ENOENT", () => {
    expect(() => stat(fresh())).toThrow("ENOENT")
  })
})

test("the mode of a file is set with each umask", () => {
  const path = file("")
  const before = process.umask(0o077)
  try {
    changeMode(path, 0o755)
  } finally {
    process.umask(before)
  }
  expect(statSync(path).mode & 0o7777).toBe(0o755)
  expect(() => changeMode(fresh(), 0)).toThrow(expect.objectContaining({ errno: "ENOENT", call: "chmod" }))
})

test("an attribute that a file has not got is undefined, also where there are none at all", () => {
  expect(findAttribute(file(""), "user.none")).toBeUndefined()
  expect(findAttribute("/proc/self/status", "user.none")).toBeUndefined()
  expect(() => findAttribute(fresh(), "user.none")).toThrow(expect.objectContaining({ errno: "ENOENT" }))
  using status = FileDescriptor.open("/proc/self/status", Open.ReadOnly)
  const set = () => setAttribute(status.fd, "user.none", new Uint8Array(1))
  expect(set).toThrow(expect.objectContaining({ call: "fsetxattr" }))
})

// The expected digest is that of coreutils' sha256sum; FIPS 180-4 has the example.
test("the digest of a file", () => {
  expect(sha256OfFile(file("abc"))).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
  expect(() => sha256OfFile(fresh())).toThrow(expect.objectContaining({ errno: "ENOENT" }))
})

test("a file has as many links as names", () => {
  const path = file("")
  expect(stat(path).links).toBe(1)
  link(path, fresh())
  expect(stat(path).links).toBe(2)
})
