import { describe, expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, unlinkSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { AF_INET } from "../../pkg/types/mod.ts"
import { kernelFiles } from "./files.ts"
import { isShared } from "./liveness.ts"
import type { NamespaceRecord } from "./records.ts"
import { onNfs } from "./testing/faulty-files.ts"
import { TemporaryStore } from "./testing/temporary-store.ts"

const full = [{ subnet: "10.0.0.0/30" }] // one address: 10.0.0.2

/** A file that replaces a namespace, because device and inode identify both kinds of files. */
class Namespace implements Disposable {
  readonly #directory = mkdtempSync(join(tmpdir(), "host-local-namespace-"))
  readonly path = join(this.#directory, "netns")

  constructor() {
    writeFileSync(this.path, "")
  }

  observe(): NamespaceRecord {
    const { device, inode } = kernelFiles.stat(this.path)
    return { path: this.path, identity: `${device}:${inode}` }
  }

  remove(): void {
    unlinkSync(this.path)
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true })
  }
}

describe("when the range is full,", () => {
  test("a container of an earlier boot whose namespace is gone gives up its address, and the log says so", () => {
    using store = new TemporaryStore(full)
    using namespace = new Namespace()
    store.add("old", { bootId: "boot-1", netns: namespace.observe() })
    namespace.remove()
    expect(store.add("new", { bootId: "boot-2" })).toEqual(["10.0.0.2"])
    expect(store.log).toEqual(["released 10.0.0.2 of container old, interface eth0, left over from an earlier boot"])
  })

  test.each([
    ["of this boot whose namespace is gone", "boot-1", true],
    ["of an earlier boot whose namespace is still there", "boot-2", false],
  ])("a container %s keeps its address", (_, bootId, remove) => {
    using store = new TemporaryStore(full)
    using namespace = new Namespace()
    store.add("old", { bootId: "boot-1", netns: namespace.observe() })
    if (remove) namespace.remove()
    expect(() => store.add("new", { bootId })).toThrow("no IP addresses available")
  })

  test("a requested address of such a container is given, too", () => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/29" }])
    store.add("old", { bootId: "boot-1" })
    const requested = [{ family: AF_INET, value: 0x0a000002n } as const]
    expect(store.add("new", { bootId: "boot-2", requested })).toEqual(["10.0.0.2"])
  })

  test("a reservation of another program counts from the boot in which it was first seen", () => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/29", rangeEnd: "10.0.0.3" }])
    store.add("a")
    writeFileSync(store.path("10.0.0.3"), "go\r\neth0")
    expect(() => store.add("b")).toThrow("no IP addresses available")
    store.del("a")
    expect(store.add("b", { bootId: "boot-2" })).toEqual(["10.0.0.2"])
    expect(store.add("c", { bootId: "boot-2" })).toEqual(["10.0.0.3"])
  })

  test("a reservation that another program has written again is not taken for the old one", () => {
    using store = new TemporaryStore(full)
    store.add("a", { bootId: "boot-1" })
    unlinkSync(store.path("10.0.0.2"))
    writeFileSync(store.path("10.0.0.2"), "a\r\neth0")
    utimesSync(store.path("10.0.0.2"), new Date(2e12), new Date(2e12))
    expect(() => store.add("b", { bootId: "boot-2" })).toThrow("no IP addresses available")
    expect(() => store.add("a", { bootId: "boot-2" })).toThrow("duplicate allocation")
  })
})

describe("an ADD of a container that has addresses already", () => {
  test("is refused while its namespace is there", () => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/29" }])
    using namespace = new Namespace()
    store.add("a", { netns: namespace.observe() })
    expect(() => store.add("a", { netns: namespace.observe() })).toThrow("duplicate allocation is not allowed")
    expect(store.log).toEqual([])
  })

  test.each([
    ["its namespace is gone", "boot-1", true],
    ["it is of an earlier boot", "boot-2", false],
  ])("gets the same addresses when %s, and counts as new from then on", (_, bootId, remove) => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/29" }], [{ subnet: "fd00::/64" }])
    using namespace = new Namespace()
    using another = new Namespace()
    store.add("first")
    store.add("a", { netns: namespace.observe() })
    store.add("last")
    if (remove) namespace.remove()
    const netns = another.observe()
    expect(store.add("a", { bootId, netns })).toEqual(["10.0.0.3", "fd00::3"])
    expect(store.log.at(-1)).toBe(
      "container a, interface eth0 was deleted without DEL: its new ADD gets 10.0.0.3, fd00::3 again",
    )
    expect(() => store.add("a", { bootId, netns })).toThrow("duplicate allocation is not allowed")
  })

  test("gets the address that it asks for rather than its former one", () => {
    using store = new TemporaryStore([{ subnet: "10.0.0.0/29" }])
    store.add("a")
    const requested = [{ family: AF_INET, value: 0x0a000005n } as const]
    expect(store.add("a", { bootId: "boot-2", requested })).toEqual(["10.0.0.5"])
    expect(store.addresses()).toEqual(["10.0.0.5"])
  })
})

// The numbers of file systems in <linux/magic.h>.
test.each([
  ["nfs", 0x6969, true],
  ["9p", 0x01021997, true],
  ["cifs", 0xff534d42, true],
  ["ceph", 0x00c36400, true],
  ["fuse, and virtiofs", 0x65735546, true],
  ["gfs2", 0x01161970, true],
  ["ocfs2", 0x7461636f, true],
  ["vfat", 0x4d44, true],
  ["ext4", 0xef53, false],
  ["xfs", 0x58465342, false],
  ["btrfs", 0x9123683e, false],
  ["tmpfs", 0x01021994, false],
  ["overlay", 0x794c7630, false],
])("whether a store on %s is taken for one that other hosts use", (_, type, expected) => {
  expect(isShared({ ...kernelFiles, fileSystemType: () => type }, "/")).toBe(expected)
})

test("a store is taken for one that other hosts use where that cannot be found out", () => {
  expect(isShared(kernelFiles, "/proc/none")).toBe(true)
})

describe("what a power cut has torn", () => {
  test.each(["", "a\r\n\0\0\0\0"])("is free when it is of an earlier boot: %j", (text) => {
    using store = new TemporaryStore(full)
    store.add("a")
    writeFileSync(store.path("10.0.0.2"), text)
    expect(store.add("b", { bootId: "boot-2" })).toEqual(["10.0.0.2"])
    store.del("a", { bootId: "boot-2" })
    expect(store.addresses()).toEqual(["10.0.0.2"])
  })

  test.each([
    ["of this boot", "boot-1", false, false],
    ["whose namespace is there", "boot-2", true, false],
    ["in a store that other hosts use", "boot-2", false, true],
  ])("stays its owner's %s", (_, bootId, isHere, isOnNfs) => {
    using store = new TemporaryStore(full)
    using namespace = new Namespace()
    store.add("a", { netns: namespace.observe() })
    if (!isHere) namespace.remove()
    writeFileSync(store.path("10.0.0.2"), "")
    unlinkSync(store.path(".index/seal"))
    const files = isOnNfs ? { ...kernelFiles, fileSystemType: onNfs } : kernelFiles
    expect(() => store.add("b", { bootId, files })).toThrow("no IP addresses available")
    expect(readFileSync(store.path("10.0.0.2"), "latin1")).toBe("a\r\neth0")
  })

  test("leaves an owner's other address as one of the earlier boot", () => {
    using store = new TemporaryStore(full, [{ subnet: "fd00::/126" }])
    store.add("a")
    unlinkSync(store.path("fd00::2"))
    expect(store.add("b", { bootId: "boot-2" })).toEqual(["10.0.0.2", "fd00::3"])
    expect(store.log).toEqual(["released 10.0.0.2 of container a, interface eth0, left over from an earlier boot"])
  })
})
