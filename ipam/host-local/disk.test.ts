import { describe, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { errnoNumber, Open, SyscallError } from "../../pkg/libc/mod.ts"
import { type Files, kernelFiles } from "./files.ts"
import { listNetworks } from "./inventory.ts"
import { withoutLinks } from "./testing/faulty-files.ts"
import { TemporaryStore } from "./testing/temporary-store.ts"

// .20 is bit 4 of byte 2 in the page that begins with 10.0.0.0. Its number is 0x0a000000 / 0x8000 = 0x1400.
const ranges = [{ subnet: "10.0.0.0/24", rangeStart: "10.0.0.20" }]
const page = ".index/used-4-1400"

const readBytes = (store: TemporaryStore, name: string) => [...readFileSync(store.path(name))]

/** Tests of the store's files, without the memory of a call. */
describe("the bitmap on the disk", () => {
  test("has a bit for each taken address, and keeps those of other calls", () => {
    using store = new TemporaryStore(ranges)
    store.add("a")
    expect(readBytes(store, page)).toEqual([0, 0, 0x10])
    store.add("b")
    expect(readBytes(store, page)).toEqual([0, 0, 0x30])
    store.del("a")
    expect(readBytes(store, page)).toEqual([0, 0, 0x20])
  })

  test("is written again from the reservations, and pages of which none is left are removed", () => {
    using store = new TemporaryStore(ranges)
    store.add("a")
    writeFileSync(store.path(".index/used-4-ffff"), "x")
    writeFileSync(store.path(".index/other"), "x")
    writeFileSync(store.path(page), new Uint8Array(8).fill(0xff))
    store.keep(["a"])
    const whole = new Uint8Array(4096)
    whole[2] = 0x10
    expect(readBytes(store, page)).toEqual([...whole])
    expect(readdirSync(store.path(".index"))).not.toContain("used-4-ffff")
    expect(readdirSync(store.path(".index"))).toContain("other")
  })

  // The last byte of crc32("c165") is 0x00, that of crc32("c8") is 0x05.
  test.each([
    ["c165", "owners-00"],
    ["c8", "owners-05"],
  ])("the record of %s is in %s", (container, name) => {
    using store = new TemporaryStore(ranges)
    store.add(container)
    expect(readdirSync(store.path(".index")).filter((file) => file.startsWith("owners-"))).toEqual([name])
  })
})

describe("where files cannot have two names", () => {
  test("a reservation holds the same bytes", () => {
    using store = new TemporaryStore(ranges)
    store.files = withoutLinks(kernelFiles)
    store.add("a")
    expect(readFileSync(store.path("10.0.0.20"), "latin1")).toBe("a\r\neth0")
  })

  test("one that cannot be written leaves no file", () => {
    using store = new TemporaryStore(ranges)
    store.add("first")
    let writes = 0
    // The draft is written by another system call. The first call of `writeAt` writes the reservation.
    const writeAt: Files["writeAt"] = (...args) => {
      if (++writes === 1) throw new SyscallError("write", errnoNumber("ENOSPC"), "test")
      return kernelFiles.writeAt(...args)
    }
    store.files = withoutLinks({ ...kernelFiles, writeAt })
    expect(() => store.add("a")).toThrow(`Cannot reserve addresses in "${store.directory}"`)
    expect(writes).toBeGreaterThan(0)
    expect(store.addresses()).toEqual(["10.0.0.20"])
  })
})

describe("what a killed ADD has left on its way", () => {
  const draft = (store: TemporaryStore, owner: string, text: string) => {
    // The name of the draft begins like that of the owner's next draft.
    const seen: string[] = []
    const createFile: Files["createFile"] = (path, ...rest) => {
      seen.push(path)
      return kernelFiles.createFile(path, ...rest)
    }
    store.add(owner, { files: { ...kernelFiles, createFile } })
    store.del(owner)
    const [path = ""] = seen.filter((each) => each.includes("/.index/new/"))
    writeFileSync(path, text)
    return () => readdirSync(store.path(".index/new"))
  }

  test.each([
    ["its owner's", "a\r\neth0", 0],
    ["a torn one", "", 0],
    ["another owner's of the same beginning", "b\r\neth0", 1],
    ["a foreign one", "of the operator", 1],
  ])("is removed by the next DEL: %s", (_, text, left) => {
    using store = new TemporaryStore(ranges)
    const names = draft(store, "a", text)
    store.del("a")
    expect(names()).toHaveLength(left)
  })

  test("is removed by GC, but for the owners that are kept", () => {
    using store = new TemporaryStore(ranges)
    const names = draft(store, "a", "a\r\neth0")
    store.keep(["a"])
    expect(names()).toHaveLength(1)
    store.keep([])
    expect(names()).toEqual([])
  })
})

test("an address is handed out though it cannot be noted as the last one, and the log says so", () => {
  using store = new TemporaryStore(ranges)
  const open: Files["open"] = (path, flags, ...rest) => {
    if (path === store.path("last_reserved_ip.0") && flags & Open.Create)
      throw new SyscallError("open", errnoNumber("EROFS"), path)
    return kernelFiles.open(path, flags, ...rest)
  }
  expect(store.add("a", { files: { ...kernelFiles, open } })).toEqual(["10.0.0.20"])
  expect(store.log).toEqual([expect.stringMatching(/^Cannot record the last reserved address: open .*EROFS/)])
})

test("a network is a directory with a lock in it", () => {
  const root = mkdtempSync(join(tmpdir(), "host-local-"))
  try {
    for (const name of ["net", "none"]) mkdirSync(join(root, name))
    for (const name of ["net/lock", "file"]) writeFileSync(join(root, name), "")
    expect(listNetworks(root)).toEqual(["net"])
    expect(listNetworks(join(root, "nothing"))).toEqual([])
  } finally {
    rmSync(root, { recursive: true })
  }
})
