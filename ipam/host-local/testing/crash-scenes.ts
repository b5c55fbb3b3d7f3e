import { expect } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { type FaultyFiles, Killed, withoutLinks } from "./faulty-files.ts"
import { type Caller, TemporaryStore } from "./temporary-store.ts"

/** Common parts of the tests of crashes: stores in use, and their required state after a crash. */

export const v4 = [{ subnet: "10.0.0.0/29" }] // 5 addresses
export const v6 = [{ subnet: "fd00::/125" }] // 6 addresses
export const capacity = 5

/** Runs an action. Reports whether it ended without a kill of its process. Rethrows other errors. */
export function survives(fault: FaultyFiles, action: () => void): boolean {
  try {
    action()
  } catch (error) {
    if (!(error instanceof Killed)) throw error
    return false
  }
  return !fault.isHit() // the call at which it was killed may be one whose errors are ignored
}

/** Checks that each address can be assigned to exactly one container. */
export function expectNothingLost(store: TemporaryStore, names: Iterable<string>): void {
  for (const name of names) store.del(name)
  expect(store.addresses()).toEqual([])
  const got = Array.from({ length: capacity }, (_, index) => store.add(`fill-${index}`))
  expect(new Set(got.map(([first]) => first)).size).toBe(capacity)
  expect(new Set(got.map(([, second]) => second)).size).toBe(capacity)
  expect(() => store.add("one-more")).toThrow("no IP addresses available")
}

const gone = { path: "/proc/self/ns/none", identity: "0:0" }

/** The operations during which a power cut or a kill happens, each with its containers. */
export const scenes: Record<
  string,
  { before: (store: TemporaryStore) => void; action: (store: TemporaryStore, caller: Caller) => void }
> = {
  "the first ADD of a network": {
    before: () => {},
    action: (store, caller) => store.add("x", caller),
  },
  "an ADD": {
    before: (store) => store.add("a"),
    action: (store, caller) => store.add("x", caller),
  },
  "a DEL": {
    before: (store) => ["a", "x"].map((name) => store.add(name)),
    action: (store, caller) => store.del("x", caller),
  },
  "an ADD after another program's": {
    before: (store) => {
      store.add("a")
      writeFileSync(store.path("10.0.0.3"), "go\r\neth0")
      writeFileSync(store.path("10.0.0.4"), "")
    },
    action: (store, caller) => store.add("x", caller),
  },
  "an ADD that takes the place of a container of an earlier boot": {
    before: (store) => ["x", "a"].map((name) => store.add(name, { bootId: "boot-0", netns: gone })),
    action: (store, caller) => store.add("x", caller),
  },
  "an ADD that finds the range full of containers of an earlier boot": {
    before: (store) => {
      for (let index = 0; index < capacity; index++) store.add(`old-${index}`, { bootId: "boot-0", netns: gone })
    },
    action: (store, caller) => store.add("x", caller),
  },
  "a GC": {
    before: (store) => ["a", "x", "y"].map((name) => store.add(name)),
    action: (store, caller) => store.keep(["a"], caller),
  },
}

export const everybody = ["a", "x", "y", "go", ...Array.from({ length: capacity }, (_, index) => `old-${index}`)]

/** File systems with and without hard links. Without them, a reservation's file is visible before it is complete. */
export const fileSystems = [
  { where: "", hasLinks: true },
  { where: " on a file system without links to files", hasLinks: false },
]

export function storeOn({ hasLinks }: { hasLinks: boolean }): TemporaryStore {
  const store = new TemporaryStore(v4, v6)
  if (!hasLinks) store.files = withoutLinks(store.files)
  return store
}

const wholeText = /^[\w-]+\r\neth0$/

/** Checks that every file with an address as name is a complete reservation. */
export function expectWhole(store: TemporaryStore): void {
  for (const address of store.addresses()) expect(readFileSync(store.path(address), "latin1")).toMatch(wholeText)
}
