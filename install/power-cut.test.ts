import { describe, expect, test } from "bun:test"
import { fstatSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { engine } from "../pkg/engine/mod.ts"
import { type Act, actsOf, requireWhole } from "./power-cut.fixture.ts"
import { Site } from "./testing.ts"

/**
 * A disk that keeps less than any other: of a file the bytes that were there at its last fsync(2), and names as a
 * journal has them, which fsync(2) of any file writes and which may be written at any time before.
 * integration/install/power-cut.test.ts cuts real ones.
 */

const calls = engine as unknown as Record<string, (...values: unknown[]) => number>
const changing = ["open", "write", "fsync", "linkat", "mkdirat", "fchmodat", "lsetxattr", "rename", "unlink", "rmdir"]

/** A directory with what it has by name, or the inode of a file. */
type Names = ReadonlyMap<string, Names | number>

class Disk {
  readonly #root: string
  /** The bytes of each file that are on the disk, by its inode. */
  readonly #bytes = new Map<number, Uint8Array>()
  #written: Names

  /** The present content of the directory is on the disk. */
  constructor(root: string) {
    this.#root = root
    this.#written = namesIn(root, (inode, path) => this.#bytes.set(inode, readFileSync(path)))
  }

  /** fsync(2) of what an open descriptor is. */
  sync(fd: number): void {
    const found = fstatSync(fd)
    if (found.isFile()) this.#bytes.set(found.ino, readFileSync(`/proc/self/fd/${fd}`))
    this.#written = namesIn(this.#root)
  }

  /** The content of the disk after a power cut now: with the names of the last fsync(2), and with all names. */
  cuts(): (() => void)[] {
    return [this.#written, namesIn(this.#root)].map((names) => {
      const bytes = new Map(this.#bytes)
      return () => {
        for (const name of readdirSync(this.#root)) rmSync(`${this.#root}/${name}`, { recursive: true })
        restore(this.#root, names, bytes)
      }
    })
  }
}

function namesIn(directory: string, visit: (inode: number, path: string) => void = () => {}): Names {
  return new Map(
    readdirSync(directory).map((name): [string, Names | number] => {
      const path = `${directory}/${name}`
      const found = lstatSync(path)
      if (found.isDirectory()) return [name, namesIn(path, visit)]
      visit(found.ino, path)
      return [name, found.ino]
    }),
  )
}

function restore(directory: string, names: Names, bytes: ReadonlyMap<number, Uint8Array>): void {
  for (const [name, what] of names) {
    const path = `${directory}/${name}`
    if (typeof what === "number") writeFileSync(path, bytes.get(what) ?? "", { mode: 0o755 })
    else {
      mkdirSync(path)
      restore(path, what, bytes)
    }
  }
}

/**
 * Cuts the power after each call of an act that changes the disk. `isSynced` says which calls of fsync(2) do something.
 */
function cutsOf(site: Site, { before, act }: Act, isSynced: (sync: number) => boolean = () => true): (() => void)[] {
  before(site.directory)
  const disk = new Disk(site.directory)
  const originals = { ...calls }
  const cuts: (() => void)[] = []
  let syncs = 0
  for (const name of changing) {
    const call = calls[name]
    if (call === undefined) continue
    calls[name] = (...values) => {
      const answer = call(...values)
      if (name === "fsync" && isSynced(syncs++)) disk.sync(values[0] as number)
      cuts.push(...disk.cuts())
      return answer
    }
  }
  try {
    act(site.directory)
  } finally {
    Object.assign(calls, originals)
  }
  return cuts
}

const kinds = Object.keys(actsOf(undefined as never))

describe.each(kinds)("when the power is cut at any moment of %s", (kind) => {
  test("each name has a whole file, and the next installer comes to its end", () => {
    using site = new Site()
    const act = actsOf(site)[kind] ?? expect.unreachable()
    const cuts = cutsOf(site, act)
    expect(cuts.length).toBeGreaterThan(40)
    for (const [at, cut] of cuts.entries()) {
      cut()
      requireWhole(site, site.directory, at >> 1, act)
    }
  })

  test("what was told to be done is done", () => {
    using site = new Site()
    const act = actsOf(site)[kind] ?? expect.unreachable()
    const [last] = cutsOf(site, act).slice(-2)
    const done = site.files()
    last?.()
    expect(site.files()).toEqual(done)
  })
})

test.each(["a first installation", "an upgrade"])("%s that puts nothing on the disk is noticed by this", (kind) => {
  using site = new Site()
  const act = actsOf(site)[kind] ?? expect.unreachable()
  const cuts = cutsOf(site, act, () => false)
  const isNoticed = cuts.some((cut, at) => {
    cut()
    try {
      requireWhole(site, site.directory, at >> 1, act)
      return false
    } catch {
      return true
    }
  })
  expect(isNoticed).toBe(true)
})
