import { describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync, unlinkSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { AF_INET } from "../../pkg/types/mod.ts"
import { kernelFiles } from "./files.ts"
import { isSharedMount } from "./liveness.ts"
import type { NamespaceRecord } from "./records.ts"
import { TemporaryStore } from "./testing/temporary-store.ts"

const full = [{ subnet: "10.0.0.0/30" }] // one address: 10.0.0.2

/** A file that stands for a namespace: it is recognised by device and inode, as a namespace is. */
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
    expect(store.log).toEqual(["released 10.0.0.2 of container old, interface eth0, which an earlier boot has ended"])
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

  test("a reservation that another program has made again is not taken for the old one", () => {
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
    expect(store.log.at(-1)).toBe("container a, interface eth0 is gone without DEL: it gets 10.0.0.3, fd00::3 again")
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

// Lines of /proc/self/mountinfo, of a disk, of NFS and of 9p; proc_pid_mountinfo(5): optional fields end with "-".
const mountinfo = `25 1 254:0 / / rw,relatime - ext4 /dev/root rw
36 25 0:31 / /mnt/nfs4 rw,noatime shared:7 - nfs4 server:/export rw,vers=4.2
37 25 0:32 / /srv rw master:1 propagate_from:2 - 9p host9p rw
38 25 0:33 / /mnt/ntfs rw - fuseblk /dev/sdb1 rw
39 25 254:3 / /srv/ceph rw - ext4 /dev/mapper/vg-ceph rw
40 25 254:4 / /srv/nfs rw - xfs /dev/nfs rw
`

test("a store is other hosts' too where its file system comes from elsewhere: no boot of ours tells who is dead", () => {
  expect(["0:31", "0:32"].map((device) => isSharedMount(mountinfo, device))).toEqual([true, true])
  const own = ["254:0", "0:33", "0:3", "9:9"]
  const withSuchNames = ["254:3", "254:4"]
  expect([...own, ...withSuchNames].filter((device) => isSharedMount(mountinfo, device))).toEqual([])
})
