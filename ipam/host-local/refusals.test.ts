import { describe, expect, test } from "bun:test"
import { unlinkSync, writeFileSync } from "node:fs"
import { errnoNumber, SyscallError } from "../../pkg/libc/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { kernelFiles } from "./files.ts"
import { checkStatus } from "./inventory.ts"
import { toolHint } from "./lease-file.ts"
import { parseAddress, parseRangeSets } from "./ranges.ts"
import { releaseAddress } from "./reservations.ts"
import { onNfs } from "./testing/faulty-files.ts"
import { TemporaryStore } from "./testing/temporary-store.ts"

/** Every refusal with its whole error: code, message, details, and the lines on stderr. */

const small = [{ subnet: "10.0.0.0/29", rangeEnd: "10.0.0.3" }] // assigns .2 and .3
const requested = (...texts: string[]) => ({ requested: texts.flatMap((text) => parseAddress(text) ?? []) })
const gone = { path: "/proc/self/ns/none", identity: "0:4:1" }
const { device, inode } = kernelFiles.stat("/proc/self/ns/net")
const here = { path: "/proc/self/ns/net", identity: `${device}:${inode}` }
const eio = (call: string): never => {
  throw new SyscallError(call, errnoNumber("EIO"), "test")
}

test("the tool that helps is named with where it comes from", () => {
  expect(toolHint).toBe('("cni install --tool-dir" installs "cni")')
})

describe("an ADD is refused", () => {
  const refused = (store: TemporaryStore, name: string, caller: Parameters<TemporaryStore["add"]>[1] = {}) => {
    const { code, message, details } = refusalOf(() => store.add(name, caller))
    return { code, message, details: details?.replaceAll(store.directory, "…") }
  }

  test("when a range set is full, with what frees addresses", () => {
    using store = new TemporaryStore(small)
    for (const name of ["a", "b"]) store.add(name)
    expect(refused(store, "c")).toEqual({
      code: 999,
      message: "failed to allocate for range 0: no IP addresses available in range set: 10.0.0.1-10.0.0.3",
      details: `every address has a file in "…"; GC, or "cni ipam release", frees those of deleted containers ${toolHint}`,
    })
  })

  test.each([
    [
      ["10.0.0.9"],
      "failed to allocate all requested IPs: 10.0.0.9",
      "outside of the range sets: 10.0.0.1-10.0.0.4; fd00::1-fd00::3",
    ],
    [
      ["10.0.0.9", "fd00::9"],
      "failed to allocate all requested IPs: 10.0.0.9 fd00::9",
      "outside of the range sets: 10.0.0.1-10.0.0.4; fd00::1-fd00::3",
    ],
    [["10.0.0.1"], "failed to allocate for range 0: requested ip 10.0.0.1 is subnet's gateway", undefined],
    [["fd00::1"], "failed to allocate for range 1: requested ip fd00::1 is subnet's gateway", undefined],
    [
      ["10.0.0.2"],
      "failed to allocate for range 0: requested IP address 10.0.0.2 is not available in range set 10.0.0.1-10.0.0.4",
      "reserved for container a, interface eth0; requested by container b, interface eth0",
    ],
    [
      ["10.0.0.3"],
      "failed to allocate for range 0: requested IP address 10.0.0.3 is not available in range set 10.0.0.1-10.0.0.4",
      "reserved for an unreadable owner; requested by container b, interface eth0",
    ],
  ])("for the requested addresses %j", (texts, message, details) => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/29", rangeEnd: "10.0.0.4" }], [{ subnet: "fd00::/126" }])
    store.add("a")
    writeFileSync(store.path("10.0.0.3"), "for the printer")
    expect(refused(store, "b", requested(...texts))).toEqual({ code: 999, message, details })
    expect(store.addresses()).toEqual(["10.0.0.2", "10.0.0.3", "fd00::2"])
  })

  test("for a network or broadcast address", () => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/29", rangeStart: "10.0.0.0", rangeEnd: "10.0.0.7" }])
    for (const address of ["10.0.0.0", "10.0.0.7"])
      expect(refused(store, "a", requested(address)).message).toBe(
        `failed to allocate for range 0: requested ip ${address} is a network or broadcast address`,
      )
  })

  test.each([
    [undefined, "container a, interface eth0 was already added and not deleted"],
    [here, "container a, interface eth0 was already added and not deleted; its network namespace is /proc/self/ns/net"],
  ])("for a container that has an address, in namespace %j", (netns, details) => {
    using store = new TemporaryStore([{ subnet: "fd00::/126" }], small)
    store.add("a", netns && { netns })
    const text = "fd00::2 has been allocated to a, duplicate allocation is not allowed"
    expect(refused(store, "a")).toEqual({ code: 999, message: `failed to allocate for range 0: ${text}`, details })
  })

  test("for a container whose first address is of the second set, by the number of that", () => {
    using store = new TemporaryStore([{ subnet: "fd00::/126" }], small)
    store.add("b")
    writeFileSync(store.path("10.0.0.3"), "a\r\neth0")
    expect(refused(store, "a").message).toBe(
      "failed to allocate for range 1: 10.0.0.3 has been allocated to a, duplicate allocation is not allowed",
    )
  })

  test("where it cannot be put on a disk that other hosts use, and what stays then is told", () => {
    using store = new TemporaryStore(small)
    const unlink = (path: string) => (path.includes("10.0.0.2") ? eio("unlink") : kernelFiles.unlink(path))
    const syncPath = (path: string) => {
      if (path === store.directory) eio("fsync")
    }
    const files = { ...kernelFiles, unlink, syncPath, fileSystemType: onNfs }
    expect(refused(store, "a", { files })).toEqual({
      code: 999,
      message: `Cannot reserve addresses in "${store.directory}"`,
      details: expect.stringContaining("fsync test: "),
    })
    expect(store.log).toEqual([
      expect.stringMatching(
        /^Cannot write the reservation to disk; keeping the previous one: .*Cannot release the addresses of container a, interface eth0/,
      ),
    ])
  })
})

describe("what was done besides is told", () => {
  test("of a container that comes again without a DEL", () => {
    using store = new TemporaryStore(small, [{ subnet: "fd00::/126" }])
    store.add("a", { netns: gone })
    expect(store.add("a")).toEqual(["10.0.0.2", "fd00::2"])
    expect(store.log).toEqual([
      "container a, interface eth0 was deleted without DEL: its new ADD gets 10.0.0.2, fd00::2 again",
    ])
  })

  test("of containers left over from an earlier boot", () => {
    using store = new TemporaryStore(small)
    for (const name of ["a", "b"]) store.add(name, { bootId: "boot-0", netns: gone })
    store.add("c")
    expect(store.log.toSorted()).toEqual([
      "released 10.0.0.2 of container a, interface eth0, left over from an earlier boot",
      "released 10.0.0.3 of container b, interface eth0, left over from an earlier boot",
    ])
  })

  test("of an address that cannot be given back on the way back", () => {
    using store = new TemporaryStore(small, [{ subnet: "10.1.0.0/30" }])
    store.add("a")
    const unlink = (path: string) => (path.endsWith("/10.0.0.3") ? eio("unlink") : kernelFiles.unlink(path))
    expect(() => store.add("b", { files: { ...kernelFiles, unlink } })).toThrow("for range 1: no IP addresses")
    expect(store.log).toEqual([expect.stringMatching(/^Cannot release 10\.0\.0\.3: unlink test: .* \(EIO\)$/)])
  })

  test("of a cursor that cannot be written, without which an address is handed out all the same", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    const open = (path: string, flags: number, mode?: number) =>
      path.includes("last_reserved_ip") && (flags & 1) === 1
        ? (eio("open") as never)
        : kernelFiles.open(path, flags, mode)
    expect(store.add("b", { files: { ...kernelFiles, open } })).toEqual(["10.0.0.3"])
    expect(store.log).toEqual([
      expect.stringMatching(/^Cannot record the last reserved address: open test: .* \(EIO\)$/),
    ])
  })

  test("of what a killed ADD has left that cannot be removed", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    const readDirectory = (path: string) => (path.endsWith("/new") ? eio("getdents") : kernelFiles.readDirectory(path))
    store.del("a", { files: { ...kernelFiles, readDirectory } })
    expect(store.log).toEqual([
      expect.stringMatching(/^Cannot remove files of a killed ADD from ".*\/net\/\.index\/new": getdents test: .*$/),
    ])
    expect(store.addresses()).toEqual([])
  })
})

describe("STATUS", () => {
  const sets = parseRangeSets([small, [{ subnet: "fd00::/126" }]])

  test("tells of a range set that is full, and by how much, for each range set", () => {
    using store = new TemporaryStore(small)
    for (const name of ["a", "b"]) store.add(name)
    checkStatus(store.open(), sets)
    const cannot = `Cannot reserve addresses in "${store.directory}"`
    expect(store.log).toEqual([
      `${cannot}: range set 0 (10.0.0.1-10.0.0.3) is full, 2 of 2 addresses used; ` +
        `"cni ipam ls" shows their holders, and GC frees those of deleted containers ${toolHint}`,
    ])
  })

  test("says nothing while an address is left, or can be taken back", () => {
    using store = new TemporaryStore(small)
    store.add("a", { bootId: "boot-0", netns: gone })
    checkStatus(store.open(), sets)
    store.add("b")
    checkStatus(store.open(), sets)
    expect(store.log).toEqual([])
  })

  test.each(["open", "writeAt", "sync"] as const)("is code 50 where no reservation can be written: %s", (call) => {
    using store = new TemporaryStore(small)
    store.add("a")
    const files = { ...kernelFiles, fileSystemType: onNfs, [call]: () => eio(call) }
    const { code, message, details } = refusalOf(() => checkStatus(store.open({ files }), sets))
    expect({ code, message }).toEqual({ code: 50, message: `Cannot reserve addresses in "${store.directory}"` })
    expect(details).toMatch(new RegExp(`^${call} test: .* \\(EIO\\)`))
  })
})

test("an address without an owner that is released by hand leaves the index as it is", () => {
  using store = new TemporaryStore(small)
  store.add("a")
  const seal = () => kernelFiles.stat(store.path(".index/seal")).changed
  const before = seal()
  expect(releaseAddress(store.open(), "10.0.0.3")).toBeUndefined()
  expect(seal()).toBe(before)
  expect(store.addresses()).toEqual(["10.0.0.2"])
})

test("sets that overlap are told by their ranges, and by their keys where these are known", () => {
  const sets = [[{ subnet: "10.0.0.0/24" }], [{ subnet: "10.0.0.0/16" }]]
  const detailsOf = (...keys: string[]) => refusalOf(() => parseRangeSets(sets, keys)).details
  expect(detailsOf()).toBe("10.0.0.1-10.0.0.254 and 10.0.0.1-10.0.255.254")
  expect(detailsOf("ipam.subnet", "ipam.ranges[0]")).toBe(
    '"ipam.subnet" 10.0.0.1-10.0.0.254 and "ipam.ranges[0]" 10.0.0.1-10.0.255.254',
  )
})

test("a repair that is made from a record says whose the reservation is", () => {
  using store = new TemporaryStore(small)
  store.add("a")
  writeFileSync(store.path("10.0.0.2"), "")
  unlinkSync(store.path(".index/seal"))
  store.keep(["a"])
  expect(store.log).toEqual([
    `repaired the empty reservation "${store.path("10.0.0.2")}": it belongs to container a, interface eth0`,
  ])
})
