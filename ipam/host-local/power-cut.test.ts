import { describe, expect, test } from "bun:test"
import { mkdirSync, readFileSync } from "node:fs"
import fc from "fast-check"
import { CniError } from "../../pkg/types/mod.ts"
import { capacity, expectNothingLost, expectWhole, fileSystems, v4, v6 } from "./testing/crash-scenes.ts"
import { withoutLinks } from "./testing/faulty-files.ts"
import { TemporaryStore } from "./testing/temporary-store.ts"
import { everyKept, type Kept, TornDisk } from "./testing/torn-disk.ts"

const gone = { path: "/proc/self/ns/none", identity: "0:0" }
const former = { bootId: "boot-0" }

/**
 * What a boot does until its power goes: addresses go round, so that some have had two owners, and there are more than
 * one at a time.
 */
function work(store: TemporaryStore, hasLinks: boolean): TornDisk {
  mkdirSync(store.directory, { recursive: true })
  const disk = new TornDisk(store.directory)
  const files = hasLinks ? disk.files : withoutLinks(disk.files)
  const caller = { ...former, files }
  store.add("a", { ...caller, netns: gone })
  store.add("b", caller)
  store.del("a", caller)
  for (const name of ["c", "d", "e"]) store.add(name, { ...caller, netns: gone })
  store.del("b", caller)
  store.add("f", caller) // has the address that "a" had
  store.del("d", caller)
  return disk
}

const formers = ["a", "b", "c", "d", "e", "f"]
const deleted = ["a", "b", "d"]

/** The calls of a runtime after a boot: an ADD of a new container precedes the calls for the old ones. */
const afterwards: Readonly<Record<string, (store: TemporaryStore) => void>> = {
  "a DEL for each container that had none": (store) => {
    const textOf = (address: string) => readFileSync(store.path(address), "latin1")
    const before = new Map(store.addresses().map((address) => [address, textOf(address)]))
    const own = store.add("new").sort()
    expectWhole(store)
    for (const name of formers) if (!deleted.includes(name)) store.del(name)
    expect(store.addresses()).toEqual(expect.arrayContaining(own))
    // Whose DEL the disk has forgotten keeps what it had, and no other's.
    const rest = store.addresses().filter((address) => !own.includes(address))
    for (const address of rest) expect(textOf(address)).toBe(before.get(address) ?? "")
    expectNothingLost(store, ["new", ...deleted])
  },
  "a GC": (store) => {
    const own = store.add("new").sort()
    store.keep(["new"])
    expect(store.addresses()).toEqual(own)
    expectNothingLost(store, ["new"])
  },
  "nothing but ADDs, and another boot": (store) => {
    fill(store, "boot-1")
    const again = fill(store, "boot-2")
    expect([again.length, new Set(again.flat()).size]).toEqual([capacity, 2 * capacity])
  },
}

/** ADDs until one is refused: what they were given, none of it twice. */
function fill(store: TemporaryStore, bootId: string): string[][] {
  const got: string[][] = []
  for (;;) {
    try {
      got.push(store.add(`${bootId}-${got.length}`, { bootId, netns: gone }))
    } catch (error) {
      if (!(error instanceof CniError) || !error.message.includes("no IP addresses available")) throw error
      expect(new Set(got.flat()).size).toBe(2 * got.length)
      return got
    }
  }
}

describe.each(fileSystems)("after a power cut$where", (fileSystem) => {
  using worked = new TemporaryStore(v4, v6)
  const disk = work(worked, fileSystem.hasLinks)
  const last = disk.moments - 1

  /** Every container is of an earlier boot: in each state of the disk no address is given twice or lost. */
  function cut(
    how: string,
    momentOf: (directory: string) => number,
    keptOf: (file: number, directory: string) => Kept,
  ): void {
    using store = new TemporaryStore(v4, v6)
    disk.restore(store.directory, momentOf, keptOf)
    afterwards[how]?.(store)
  }

  test("at any moment, every file whole, missing or torn: no address is given twice, none is lost", () => {
    const hows = Object.keys(afterwards)
    expect(last).toBeGreaterThan(50)
    for (let moment = 0; moment <= last; moment++) {
      for (const [at, kept] of everyKept.entries()) {
        const ofIndex = everyKept[(moment + at) % everyKept.length] ?? kept
        cut(
          hows[(moment + at) % hows.length] ?? "",
          () => moment,
          (_, directory) => (directory === "" ? kept : ofIndex),
        )
      }
    }
  }, 900_000)

  test("each directory at a moment of its own, each file kept in its own way: no address is given twice, none is lost", () => {
    const moment = fc.integer({ min: 0, max: last })
    const kept = fc.array(fc.constantFrom(...everyKept), { minLength: 7, maxLength: 7 })
    const how = fc.constantFrom(...Object.keys(afterwards))
    fc.assert(
      fc.property(how, moment, moment, moment, kept, (how, first, second, third, kinds) => {
        const moments = new Map([
          ["", first],
          [".index", second],
          [".index/new", third],
        ])
        cut(
          how,
          (directory) => moments.get(directory) ?? 0,
          (file) => kinds[file % kinds.length] ?? "nothing",
        )
      }),
      { numRuns: 300 },
    )
  }, 900_000)
})
