import { expect, test } from "bun:test"
import { mkdirSync, truncateSync, unlinkSync, utimesSync, writeFileSync } from "node:fs"
import { CniError } from "../../pkg/types/mod.ts"
import { kernelFiles } from "./files.ts"
import { checkStatus, listLeases, usageOf } from "./inventory.ts"
import { parseAddress, parseRangeSets } from "./ranges.ts"
import type { NamespaceRecord } from "./records.ts"
import { TemporaryStore } from "./testing/temporary-store.ts"

const full = [{ subnet: "10.0.0.0/30" }] // one address: 10.0.0.2
const sets = parseRangeSets([full])
const earlier = { bootId: "boot-1" }
const now = { bootId: "boot-2" }
const { device, inode } = kernelFiles.stat("/proc/self/ns/net")
const here: NamespaceRecord = { path: "/proc/self/ns/net", identity: `${device}:${inode}` }
const gone = { path: "/proc/self/ns/none", identity: "0:4:1" }

/** Writes a reservation like another program, which writes no records. */
function write(store: TemporaryStore, text: string): void {
  mkdirSync(store.directory, { recursive: true })
  writeFileSync(store.path("10.0.0.2"), text)
}

/** Reservations of a store's only address, and whether an ADD may reclaim the address. */
const reservations: { of: string; made: (store: TemporaryStore) => void; isReclaimable: boolean }[] = [
  { of: "an earlier boot", made: (store) => store.add("a", earlier), isReclaimable: true },
  {
    of: "an earlier boot, its namespace gone",
    made: (store) => store.add("a", { ...earlier, netns: gone }),
    isReclaimable: true,
  },
  {
    of: "an earlier boot, its namespace there",
    made: (store) => store.add("a", { ...earlier, netns: here }),
    isReclaimable: false,
  },
  {
    of: "this boot, its namespace gone",
    made: (store) => store.add("a", { ...now, netns: gone }),
    isReclaimable: false,
  },
  { of: "another program, never seen before", made: (store) => write(store, "go\r\neth0"), isReclaimable: false },
  {
    of: "another program, seen in an earlier boot",
    made: (store) => {
      write(store, "go\r\neth0")
      store.del("b", earlier)
    },
    isReclaimable: true,
  },
  {
    of: "an earlier boot, written again since by another program",
    made: (store) => {
      store.add("a", earlier)
      unlinkSync(store.path("10.0.0.2"))
      write(store, "a\r\neth0")
      utimesSync(store.path("10.0.0.2"), new Date(2e12), new Date(2e12))
    },
    isReclaimable: false,
  },
  {
    of: "an earlier boot, with another address added by another program",
    made: (store) => {
      store.add("a", earlier)
      writeFileSync(store.path("10.9.9.9"), "a\r\neth0")
    },
    isReclaimable: false,
  },
  {
    of: "a container, for all of its interfaces",
    made: (store) => {
      write(store, "old")
      store.del("b", earlier)
    },
    isReclaimable: false,
  },
  { of: "an unknown owner, torn", made: (store) => write(store, ""), isReclaimable: true },
  {
    of: "an owner of an earlier boot, torn",
    made: (store) => {
      store.add("a", earlier)
      const { modified } = kernelFiles.stat(store.path("10.0.0.2"))
      truncateSync(store.path("10.0.0.2"))
      kernelFiles.setModified(store.path("10.0.0.2"), modified) // as after a power cut
    },
    isReclaimable: true,
  },
  { of: "an operator", made: (store) => write(store, "kept for the printer"), isReclaimable: false },
]

test.each(reservations)(
  "STATUS, the list of leases and ADD agree about what could be reclaimed of $of: $isReclaimable",
  ({ made, isReclaimable }) => {
    using store = new TemporaryStore(full)
    made(store)
    store.log.length = 0
    const lease = listLeases(store.open(now)).find(({ address }) => address === "10.0.0.2")
    const address = parseAddress("10.0.0.2")
    const usage = usageOf(sets[0] ?? [], address ? [address] : [], address && lease?.reclaimable ? [address] : [])
    checkStatus(store.open(now), sets)
    const warning = `Cannot reserve addresses in "${store.directory}": range set 0 (10.0.0.1-10.0.0.2) is full, 1 of 1`
    expect({ usage, status: store.log }).toEqual({
      usage: { used: 1, reclaimable: isReclaimable ? 1 : 0, total: 1n },
      status: isReclaimable ? [] : [expect.stringContaining(warning)],
    })
    expect(isServed(() => store.add("new", now))).toBe(isReclaimable)
  },
)

test("a survey changes nothing", () => {
  using store = new TemporaryStore([{ subnet: "10.0.0.0/29" }])
  store.add("a", earlier)
  store.add("b", { ...now, netns: gone })
  writeFileSync(store.path("10.0.0.4"), "")
  const files = () => [...new Bun.Glob("**").scanSync({ cwd: store.directory, dot: true })].map(fileState).sort()
  const fileState = (name: string) => `${name} ${kernelFiles.stat(store.path(name)).changed}`
  const before = files()
  expect(listLeases(store.open(now)).map(({ reclaimable }) => reclaimable)).toContain(true)
  expect(files()).toEqual(before)
})

test("of no store there is no lease", () => {
  using store = new TemporaryStore(full)
  expect(listLeases(store.open(now))).toEqual([])
})

/** Reports whether an ADD succeeds. Rethrows all errors except that of a full range. */
function isServed(add: () => unknown): boolean {
  try {
    add()
    return true
  } catch (error) {
    if (error instanceof CniError && error.message.includes("no IP addresses available")) return false
    throw error
  }
}
