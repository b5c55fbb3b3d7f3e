import { describe, expect, test } from "bun:test"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from "node:fs"
import { errnoNumber, SyscallError } from "../../pkg/libc/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { inSession } from "./allocate.ts"
import { kernelFiles } from "./files.ts"
import { listLeases } from "./inventory.ts"
import { PreparedLease } from "./lease-file.ts"
import { writeCursor } from "./next-address.ts"
import { parseAddress } from "./ranges.ts"
import { releaseAddress } from "./reservations.ts"
import { fullAt, onNfs, readOnly, unreadable } from "./testing/faulty-files.ts"
import { owner, TemporaryStore } from "./testing/temporary-store.ts"

const small = [{ subnet: "10.0.0.0/29" }] // assigns .2 to .6
const v6 = [{ subnet: "fd00::/64" }]

const requested = (...texts: string[]) => ({ requested: texts.flatMap((text) => parseAddress(text) ?? []) })

const write = (store: TemporaryStore, address: string, text: string) => {
  mkdirSync(store.directory, { recursive: true })
  writeFileSync(store.path(address), text)
}

describe("the files of the store", () => {
  test("are named and written byte for byte as upstream does it", () => {
    using store = new TemporaryStore(small, v6)
    store.add("abc")
    expect(store.addresses()).toEqual(["10.0.0.2", "fd00::2"])
    expect(readFileSync(store.path("10.0.0.2"), "latin1")).toBe("abc\r\neth0")
    expect(readFileSync(store.path("fd00::2"), "latin1")).toBe("abc\r\neth0")
    expect(readFileSync(store.path("last_reserved_ip.0"), "latin1")).toBe("10.0.0.2")
    expect(readFileSync(store.path("last_reserved_ip.1"), "latin1")).toBe("fd00::2")
    expect(statSync(store.path("10.0.0.2")).mode & 0o7777).toBe(0o600)
    expect(statSync(store.path("lock")).size).toBe(0)
  })

  test("are in directories that all may list, but for the index, which is the store's own", () => {
    using store = new TemporaryStore(small)
    store.add("abc")
    const mode = (path: string) => statSync(path).mode & 0o7777
    const listed = 0o755 & ~process.umask()
    expect([store.path(".."), store.directory, store.path(".index")].map(mode)).toEqual([listed, listed, 0o700])
  })

  test("on their way stay where others can change them: nothing is removed there", () => {
    using store = new TemporaryStore(small)
    store.add("abc")
    writeFileSync(store.path(".index/new/torn"), "")
    chmodSync(store.directory, 0o777)
    for (const remove of [() => store.del("abc"), () => store.open().removeDrafts(() => true)])
      expect(refusalOf(remove).code).toBe(5)
    expect(existsSync(store.path(".index/new/torn"))).toBe(true)
    chmodSync(store.directory, 0o755)
    store.open().removeDrafts(() => true)
    expect(existsSync(store.path(".index/new/torn"))).toBe(false)
  })

  test("leave nothing behind that looks like a reservation when all is released", () => {
    using store = new TemporaryStore(small, v6)
    store.add("abc")
    store.del("abc")
    expect(store.addresses()).toEqual([])
    expect(readFileSync(store.path("last_reserved_ip.0"), "latin1")).toBe("10.0.0.2")
  })

  test("a shorter cursor leaves nothing of a longer one", () => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/28" }])
    store.add("a", requested("10.0.0.10"))
    store.add("b", requested("10.0.0.3"))
    expect(readFileSync(store.path("last_reserved_ip.0"), "latin1")).toBe("10.0.0.3")
  })
})

describe("ADD", () => {
  test("hands out a /29 to the last address, then says that it is full", () => {
    using store = new TemporaryStore(small)
    const got = ["a", "b", "c", "d", "e"].flatMap((name) => store.add(name))
    expect(got).toEqual(["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"])
    const error = refusalOf(() => store.add("f"))
    expect(error.code).toBe(999)
    expect(error.message).toBe(
      "failed to allocate for range 0: no IP addresses available in range set: 10.0.0.1-10.0.0.6",
    )
  })

  test("goes on after the cursor, and gives a freed address only after the whole round", () => {
    using store = new TemporaryStore(small)
    for (const name of ["a", "b", "c"]) store.add(name)
    store.del("a")
    expect(["d", "e", "f"].flatMap((name) => store.add(name))).toEqual(["10.0.0.5", "10.0.0.6", "10.0.0.2"])
  })

  test.each([
    ["after the cursor", "10.0.0.5", ["10.0.0.6"], "10.0.0.2"],
    ["from the start when the cursor lies outside", "10.0.0.128", [], "10.0.0.2"],
    ["from the start when the cursor is empty", "", [], "10.0.0.2"],
    [
      "at the cursor itself when nothing else is left",
      "10.0.0.3",
      ["10.0.0.2", "10.0.0.4", "10.0.0.5", "10.0.0.6"],
      "10.0.0.3",
    ],
  ])("looks %s", (_, cursor, taken, expected) => {
    using store = new TemporaryStore(small)
    for (const address of taken) write(store, address, "other\r\neth0")
    write(store, "last_reserved_ip.0", cursor)
    expect(store.add("a")).toEqual([expected])
  })

  test("goes from the end of one range to the start of the next", () => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/30" }, { subnet: "10.0.1.0/30" }])
    expect(["a", "b"].flatMap((name) => store.add(name))).toEqual(["10.0.0.2", "10.0.1.2"])
    store.del("a")
    expect(store.add("c")).toEqual(["10.0.0.2"])
  })

  test("never gives away a gateway anywhere in the set", () => {
    using store = new TemporaryStore([
      { subnet: "10.0.0.0/30", gateway: "10.0.1.1" },
      { subnet: "10.0.1.0/30", gateway: "10.0.1.2" },
    ])
    expect(store.add("a")).toEqual(["10.0.0.1"])
    expect(store.add("b")).toEqual(["10.0.0.2"])
    expect(refusalOf(() => store.add("c")).message).toContain("no IP addresses available")
  })

  test("again for a container that is attached is refused, and leaves the store as it was", () => {
    using store = new TemporaryStore(small, v6)
    store.add("a")
    const error = refusalOf(() => store.add("a"))
    expect(error.message).toBe(
      "failed to allocate for range 0: 10.0.0.2 has been allocated to a, duplicate allocation is not allowed",
    )
    expect(refusalOf(() => store.add("a", requested("10.0.0.5"))).message).toContain("duplicate allocation")
    expect(store.addresses()).toEqual(["10.0.0.2", "fd00::2"])
  })

  test("that fails in its second range set gives back the address of the first, and no other", () => {
    using store = new TemporaryStore(small, [{ subnet: "10.1.0.0/30" }])
    store.add("a")
    expect(refusalOf(() => store.add("b")).message).toStartWith("failed to allocate for range 1: no IP addresses")
    expect(store.addresses()).toEqual(["10.0.0.2", "10.1.0.2"])
  })

  test("gives a requested address, and the others from their range sets", () => {
    using store = new TemporaryStore(small, v6)
    expect(store.add("a", requested("fd00::77"))).toEqual(["10.0.0.2", "fd00::77"])
    expect(store.add("b")).toEqual(["10.0.0.3", "fd00::78"])
  })

  test.each([
    ["taken", ["10.0.0.2"], "requested IP address 10.0.0.2 is not available in range set 10.0.0.1-10.0.0.6"],
    ["the gateway", ["10.0.0.1"], "requested ip 10.0.0.1 is subnet's gateway"],
    ["nowhere", ["10.9.9.9"], "failed to allocate all requested IPs: 10.9.9.9"],
    ["one too many of a set", ["10.0.0.3", "10.0.0.4"], "failed to allocate all requested IPs: 10.0.0.4"],
  ])("refuses a requested address that is %s", (_, texts, message) => {
    using store = new TemporaryStore(small)
    store.add("a")
    expect(refusalOf(() => store.add("b", requested(...texts))).message).toContain(message)
    expect(store.addresses()).toEqual(["10.0.0.2"])
  })

  test("finds the one free address among 8,000, in two pages of the bitmap", () => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/16", rangeStart: "10.0.112.0", rangeEnd: "10.0.143.255" }])
    store.add("first", requested("10.0.120.1"))
    const lease = new PreparedLease(kernelFiles, store.path("10.0.120.1"), owner("first"), false)
    inSession(store.open(), (session) => {
      for (let value = 112 << 8; value < 144 << 8; value++) {
        const text = `10.0.${value >> 8}.${value & 255}`
        if (text !== "10.0.140.7") session.reserve(parseAddress(text) ?? expect.unreachable(), lease)
      }
    })
    expect(store.add("last")).toEqual(["10.0.140.7"])
  })
})

describe("DEL", () => {
  test("of an unknown container, twice, or without a store succeeds and makes nothing", () => {
    using store = new TemporaryStore(small)
    store.del("a")
    expect(existsSync(store.directory)).toBe(false)
    store.add("a")
    store.del("a")
    store.del("a")
    store.del("b")
    expect(store.addresses()).toEqual([])
  })

  test("leaves the same container's other interface alone", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    write(store, "10.0.0.5", "a\r\neth1")
    store.del("a")
    expect(store.addresses()).toEqual(["10.0.0.5"])
  })

  test("releases what is held outside of the ranges, too", () => {
    using store = new TemporaryStore(small)
    write(store, "192.0.2.9", "a\r\neth0")
    write(store, "fd99::9", "a\r\neth0")
    store.del("a")
    expect(store.addresses()).toEqual([])
  })

  test.each([
    ["the old form, the container alone", "a"],
    ["white space around it", " a\r\neth0 \n"],
  ])("finds a reservation in %s", (_, text) => {
    using store = new TemporaryStore(small)
    write(store, "10.0.0.4", text)
    store.del("a")
    expect(store.addresses()).toEqual([])
  })

  test("finds a reservation that was rewritten in place in the old form", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    writeFileSync(store.path("10.0.0.2"), "a")
    store.del("a")
    expect(store.addresses()).toEqual([])
  })

  test("does not touch an address that another program has given to another container since", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    unlinkSync(store.path("10.0.0.2"))
    write(store, "10.0.0.2", "b\r\neth0")
    store.del("a")
    expect(store.addresses()).toEqual(["10.0.0.2"])
    store.del("b")
    expect(store.addresses()).toEqual([])
  })

  test("notices an address that was given to another container by rewriting the file in place", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    writeFileSync(store.path("10.0.0.2"), "b\r\neth0")
    store.del("a")
    expect(store.addresses()).toEqual(["10.0.0.2"])
    store.del("b")
    expect(store.addresses()).toEqual([])
  })

  test("says what it cannot remove", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    const error = refusalOf(() => store.del("a", { files: readOnly().files }))
    expect(error.message).toBe(`Cannot release the addresses of container a, interface eth0 in "${store.directory}"`)
    expect(error.details).toContain("EROFS")
  })
})

describe("a failure on the way back does not hide the first one:", () => {
  test("of an ADD on a read-only file system", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    const error = refusalOf(() => store.add("b", { files: readOnly().files }))
    expect(error.message).toBe(`Cannot reserve addresses in "${store.directory}"`)
    expect(error.details).toStartWith("createFile test")
  })

  test("of an ADD that cannot be put on a disk that other hosts use, on a file system that is read-only from then on", () => {
    using store = new TemporaryStore(small)
    const frozen = readOnly().files
    const refuse = (): never => {
      throw new SyscallError("fsync", errnoNumber("EIO"), "test")
    }
    let isFrozen = false
    const unlink = (path: string) => (isFrozen ? frozen.unlink(path) : kernelFiles.unlink(path))
    const syncPath = (path: string) => {
      if (path !== store.directory) return
      isFrozen = true
      refuse()
    }
    const files = { ...kernelFiles, unlink, syncPath, fileSystemType: onNfs }
    const error = refusalOf(() => store.add("a", { files }))
    expect(error.details).toContain("fsync test")
    expect(store.log.join()).toContain("EROFS")
  })
})

describe("what others do to the directory is noticed at once:", () => {
  test("a reservation made by another program is not given away, and is released by its owner", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    write(store, "10.0.0.3", "go\r\neth0")
    expect(store.add("b")).toEqual(["10.0.0.4"])
    store.del("go")
    expect(store.addresses()).toEqual(["10.0.0.2", "10.0.0.4"])
  })

  test("a reservation removed with rm is free", () => {
    using store = new TemporaryStore(small)
    for (const name of ["a", "b", "c", "d", "e"]) store.add(name)
    unlinkSync(store.path("10.0.0.4"))
    expect(store.add("f")).toEqual(["10.0.0.4"])
  })

  test("a reservation removed with rm in the middle of another call is free at the latest when the range is full", () => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/29", rangeEnd: "10.0.0.3" }])
    store.add("a")
    inSession(store.open(), (session) => {
      writeCursor(session.place, 0, parseAddress("10.0.0.2") ?? expect.unreachable())
      session.free("10.0.0.3") // makes the session seal the store
      unlinkSync(store.path("10.0.0.2"))
    })
    expect(["b", "c"].flatMap((name) => store.add(name))).toEqual(["10.0.0.3", "10.0.0.2"])
  })

  test("a container whose reservation was removed with rm can be added again", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    unlinkSync(store.path("10.0.0.2"))
    expect(store.add("a")).toEqual(["10.0.0.3"])
  })

  test.each([
    ["the whole index", ".index"],
    ["the seal", ".index/seal"],
    ["a page of the bitmap", ".index/used-4-1400"],
    ["a file of records", `.index/owners-${(Bun.hash.crc32("a") % 256).toString(16).padStart(2, "0")}`],
    ["the lock", "lock"],
  ])("%s removed by hand is created again", (_, name) => {
    using store = new TemporaryStore(small)
    store.add("a")
    store.add("b")
    rmSync(store.path(name), { recursive: true })
    expect(store.add("c")).toEqual(["10.0.0.4"])
    store.del("a")
    expect(store.addresses()).toEqual(["10.0.0.3", "10.0.0.4"])
  })

  test("a file in the place of the index makes the store slow, not wrong", () => {
    using store = new TemporaryStore(small)
    write(store, "10.0.0.2", "a\r\neth0")
    writeFileSync(store.path(".index"), "")
    store.del("a")
    expect(store.addresses()).toEqual([])
  })

  test("names that are not canonical addresses count for nothing", () => {
    using store = new TemporaryStore(small, v6)
    for (const name of ["10.0.0.02", "FD00::2", "::ffff:10.0.0.2", "note.txt", "10.0.0.2~"])
      write(store, name, "x\r\ny")
    expect(store.add("a")).toEqual(["10.0.0.2", "fd00::2"])
  })
})

describe("torn and foreign files", () => {
  test("an empty reservation without a known owner is removed, and said so", () => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/30" }])
    write(store, "10.0.0.2", "")
    expect(store.add("a")).toEqual(["10.0.0.2"])
    expect(store.log).toEqual([`repaired the empty reservation "${store.path("10.0.0.2")}": removed`])
  })

  test("its address is the next one to be handed out", () => {
    using store = new TemporaryStore(small)
    write(store, "10.0.0.2", "")
    expect(store.add("a")).toEqual(["10.0.0.2"])
  })

  test("one full of zero bytes is treated as empty", () => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/30" }])
    write(store, "10.0.0.2", "\0\0\0\0\0\0\0\0")
    expect(store.add("a")).toEqual(["10.0.0.2"])
  })

  test("an emptied reservation is restored from the record of its owner", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    store.add("b")
    truncateSync(store.path("10.0.0.2"))
    unlinkSync(store.path("10.0.0.3"))
    expect(store.add("c")).toEqual(["10.0.0.4"])
    expect(readFileSync(store.path("10.0.0.2"), "latin1")).toBe("a\r\neth0")
    store.del("a")
    expect(store.addresses()).toEqual(["10.0.0.4"])
  })

  test("an emptied reservation is released by its owner", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    truncateSync(store.path("10.0.0.2"))
    store.del("a")
    expect(store.addresses()).toEqual([])
  })

  test("an emptied reservation that cannot be restored is released by its owner all the same", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    store.add("b")
    truncateSync(store.path("10.0.0.2"))
    unlinkSync(store.path("10.0.0.3"))
    expect(() => store.add("c", { files: fullAt(1, Number.POSITIVE_INFINITY).files })).toThrow("Cannot reserve")
    store.keep(["a"], { files: fullAt(1, Number.POSITIVE_INFINITY).files })
    expect(store.log.at(-1)).toStartWith(`Cannot repair the empty reservation "${store.path("10.0.0.2")}"`)
    store.del("a")
    expect(store.addresses()).toEqual([])
  })

  test("a file that is not a reservation keeps its address, and is said to", () => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/29", rangeEnd: "10.0.0.3" }])
    write(store, "10.0.0.2", "kept for the printer")
    mkdirSync(store.path("10.0.0.3"))
    expect(refusalOf(() => store.add("a")).message).toContain("no IP addresses available")
    expect(store.log[0]).toContain("is not a reservation: the file is kept")
    store.keep([])
    expect(store.addresses()).toEqual(["10.0.0.2", "10.0.0.3"])
  })

  test("a reservation that may not be read is an error that names it, and released when it may", () => {
    using store = new TemporaryStore(small)
    write(store, "10.0.0.2", "a\r\neth0")
    const options = unreadable(store.path("10.0.0.2"))
    const { details } = refusalOf(() => store.keep([], options))
    expect(details).toContain(`"${store.path("10.0.0.2")}": Permission denied (EACCES)`)
    expect(options.isHit()).toBe(true)
    store.keep([])
    expect(store.addresses()).toEqual([])
  })

  test("a truncated container id is released by GC", () => {
    using store = new TemporaryStore(small)
    write(store, "10.0.0.2", "abcdef\r\net")
    write(store, "10.0.0.3", "abc")
    store.keep(["abcdef0123"])
    expect(store.addresses()).toEqual([])
  })
})

describe("GC", () => {
  test("releases what is not attached, of each program, and nothing else", () => {
    using store = new TemporaryStore(small, v6)
    store.add("a")
    store.add("b")
    write(store, "10.0.0.6", "go\r\neth0")
    write(store, "192.0.2.1", "old")
    store.keep(["b"])
    expect(store.addresses()).toEqual(["10.0.0.3", "fd00::3"])
    expect(store.add("c")).toEqual(["10.0.0.4", "fd00::4"])
  })

  test("#33 does everything it can and then says what it could not", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    store.add("b")
    const error = refusalOf(() => store.keep([], { files: readOnly().files }))
    expect(error.message).toContain("release the addresses of container a")
    expect(error.message).toContain("release the addresses of container b")
  })

  test("of a network that was never used does nothing", () => {
    using store = new TemporaryStore(small)
    store.keep([])
    expect(existsSync(store.directory)).toBe(false)
  })
})

test("two networks under one directory do not disturb each other", () => {
  using store = new TemporaryStore(small)
  using other = new TemporaryStore(small)
  store.add("a")
  other.add("a")
  store.del("a")
  expect(other.addresses()).toEqual(["10.0.0.2"])
})

test("an address can be released by hand, with its owner's others; a foreign file, too", () => {
  using store = new TemporaryStore(small, v6)
  store.add("a")
  store.add("b")
  write(store, "10.0.0.6", "for the printer")
  expect(releaseAddress(store.open(), "fd00::2")).toEqual({ containerId: "a", ifName: "eth0" })
  expect(releaseAddress(store.open(), "10.0.0.6")).toBe("foreign")
  expect(releaseAddress(store.open(), "10.0.0.5")).toBeUndefined()
  expect(store.addresses()).toEqual(["10.0.0.3", "fd00::3"])
})

test("the inventory tells holder, age and namespace of every address", () => {
  using store = new TemporaryStore(small)
  store.add("a", { netns: { path: "/proc/self/ns/none", identity: "0:1" } })
  write(store, "10.0.0.3", "go\r\neth0")
  write(store, "10.0.0.4", "")
  write(store, "10.0.0.5", "for the printer")
  const leases = listLeases(store.open()).sort((a, b) => a.address.localeCompare(b.address))
  expect(leases.map(({ address, holder }) => [address, holder])).toEqual([
    ["10.0.0.2", { containerId: "a", ifName: "eth0" }],
    ["10.0.0.3", { containerId: "go", ifName: "eth0" }],
    ["10.0.0.4", "torn"],
    ["10.0.0.5", "foreign"],
  ])
  expect(leases[0]).toMatchObject({ netns: { path: "/proc/self/ns/none", exists: false }, liveness: "lost" })
  expect(Math.abs((leases[0]?.writtenMs ?? 0) - Date.now())).toBeLessThan(600_000)
})
