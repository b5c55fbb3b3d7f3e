import { describe, expect, test } from "bun:test"
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { errnoNumber, SyscallError } from "../../pkg/libc/mod.ts"
import { type Files, kernelFiles } from "./files.ts"
import { Index } from "./index.ts"
import { parseAddress } from "./ranges.ts"
import { fileSystems } from "./testing/crash-scenes.ts"
import { onNfs, recorded, withoutLinks } from "./testing/faulty-files.ts"
import { TemporaryStore } from "./testing/temporary-store.ts"

const small = [{ subnet: "10.0.0.0/29" }] // assigns .2 to .6
const v6 = [{ subnet: "fd00::/64" }]

const at = (text: string) => parseAddress(text) ?? expect.unreachable()

test("a page of the bitmap that is full leads to the next one, and a range ends where it ends", () => {
  const index = new Index(kernelFiles, "/not/there")
  index.clear()
  const first = at("10.0.0.0")
  for (let value = first.value; value < first.value + 32768n; value++) index.note({ ...first, value }, true)
  expect(index.nextFree(at("10.0.0.7"), at("10.1.255.255"))).toEqual(at("10.0.128.0"))
  expect(index.nextFree(at("10.0.0.7"), at("10.0.128.0"))).toEqual(at("10.0.128.0"))
  expect(index.nextFree(at("10.0.0.7"), at("10.0.127.255"))).toBeUndefined()
  index.note(at("10.0.128.0"), true)
  expect(index.nextFree(at("10.0.127.255"), at("10.0.128.0"))).toBeUndefined()
  expect(index.nextFree(at("10.0.127.255"), at("10.0.128.1"))).toEqual(at("10.0.128.1"))
})

function callsAmong(count: number): unknown[][] {
  using store = new TemporaryStore([{ subnet: "10.0.0.0/16" }], v6)
  for (let index = 0; index < count; index++) store.add(`c${index}`)
  return [() => store.add("last", recording), () => store.del("last", recording)].map((action) => {
    recording.calls.length = 0
    action()
    return recording.calls.map(([name]) => name)
  })
}
const recording = recorded()

describe("the index", () => {
  test("is used: ADD and DEL make the same calls among one reservation and among a hundred, and list them never", () => {
    const few = callsAmong(1)
    expect(callsAmong(100)).toEqual(few)
    expect(few.map((calls) => calls.filter((name) => name === "readDirectory").length)).toEqual([0, 1]) // the list of drafts, which is empty
  })

  test("is left alone by calls that change nothing", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    recording.calls.length = 0
    store.del("b", recording)
    const changing = ["createFile", "link", "setModified", "truncate", "unlink", "writeAt"]
    expect(recording.calls.map(([name]) => name)).not.toContainAnyValues(changing)
  })

  test("has one line for each owner that holds something, and none for others", () => {
    using store = new TemporaryStore(small)
    const names = () => readdirSync(store.path(".index")).filter((name) => name.startsWith("owners-"))
    const lines = () =>
      names().flatMap((name) => readFileSync(store.path(`.index/${name}`), "latin1").match(/^.+$/gm) ?? [])
    for (const name of ["a", "b"]) store.add(name)
    expect(lines()).toHaveLength(2)
    store.add("a", { bootId: "boot-2" }) // gets the same address again
    expect(lines()).toHaveLength(2)
    store.del("a")
    expect(lines()).toEqual([expect.stringContaining("10.0.0.3")])
    store.del("b")
    expect(lines()).toEqual([])
  })

  test("is for root alone, its files too", () => {
    using store = new TemporaryStore(small, v6)
    store.add("a")
    const modeOf = (name: string) => statSync(store.path(name)).mode & 0o7777
    expect([".index", ".index/new"].map(modeOf)).toEqual([0o700, 0o700])
    const files = readdirSync(store.path(".index")).filter((name) => name !== "new")
    expect(files).toHaveLength(4) // the seal, a page of each family, a file of records
    for (const name of files) expect([name, modeOf(`.index/${name}`)]).toEqual([name, 0o600])
    rmSync(store.path(".index"), { recursive: true })
    store.del("a") // creates the index again
    expect(modeOf(".index")).toBe(0o700)
  })

  test("is created again in another boot, once", () => {
    using store = new TemporaryStore(small)
    store.add("a")
    const listings = () => recording.calls.filter(([name]) => name === "readDirectory").length
    for (const expected of [4, 1]) {
      // the store, its index, abandoned drafts, and drafts of an earlier ADD of this owner
      recording.calls.length = 0
      store.del("b", { ...recording, bootId: "boot-2" })
      expect(listings()).toBe(expected)
    }
  })

  test("is not trusted after a repair that failed: the next call tries it again", () => {
    using store = new TemporaryStore(small)
    mkdirSync(store.directory, { recursive: true })
    writeFileSync(store.path("10.0.0.2"), "")
    const unlink: Files["unlink"] = (path) => {
      if (path === store.path("10.0.0.2")) throw new SyscallError("unlink", errnoNumber("EPERM"), path)
      kernelFiles.unlink(path)
    }
    expect(store.add("a", { files: { ...kernelFiles, unlink } })).toEqual(["10.0.0.3"])
    expect(store.log).toEqual([
      expect.stringContaining(`Cannot repair the empty reservation "${store.path("10.0.0.2")}": unlink`),
    ])
    expect(store.add("b")).toEqual(["10.0.0.4"])
    expect(store.log.at(-1)).toBe(`repaired the empty reservation "${store.path("10.0.0.2")}": removed`)
    expect(store.addresses()).toEqual(["10.0.0.3", "10.0.0.4"])
  })
})

test("a rebuild removes files that never became a reservation once no process can be at work on them", () => {
  using store = new TemporaryStore(small)
  store.add("a")
  for (const name of ["young", "old"]) writeFileSync(store.path(`.index/new/${name}`), "a\r\neth0")
  // Only the kernel sets the change time.
  const stat: Files["stat"] = (path, ...rest) => {
    const found = kernelFiles.stat(path, ...rest)
    const ageMs = path.endsWith("/old") ? 601_000n : path.endsWith("/young") ? 590_000n : 0n
    return Object.defineProperty(found, "changed", { value: found.changed - ageMs * 1_000_000n })
  }
  store.del("b", { files: { ...kernelFiles, stat } }) // uses the index without a rebuild
  expect(readdirSync(store.path(".index/new")).sort()).toEqual(["old", "young"])
  store.keep(["a"], { files: { ...kernelFiles, stat } })
  expect(readdirSync(store.path(".index/new"))).toEqual(["young"])
  expect(store.addresses()).toEqual(["10.0.0.2"])
})

const syncs = ["sync", "syncPath"]

test.each(fileSystems)("ADD, STATUS and DEL wait for no disk$where", ({ hasLinks }) => {
  using store = new TemporaryStore(small, v6)
  const caller = { files: hasLinks ? recording.files : withoutLinks(recording.files) }
  recording.calls.length = 0
  store.add("a", caller)
  store.open(caller).tryLease()
  store.del("a", caller)
  const names = recording.calls.map(([name]) => name)
  expect(names).toContain("createFile")
  expect(names.filter((name) => syncs.includes(String(name)))).toEqual([])
})

test("where other hosts use the store, ADD has the file on the disk before the name, and the name before it answers", () => {
  using store = new TemporaryStore(small, v6)
  store.files = { ...recording.files, fileSystemType: onNfs }
  recording.calls.length = 0
  store.add("a")
  const order = recording.calls.flatMap(([name, path]) => (name === "link" ? "link" : name === "syncPath" ? path : []))
  expect(order).toEqual([expect.stringContaining("/.index/new/"), "link", "link", store.directory])
  recording.calls.length = 0
  store.open().tryLease()
  expect(recording.calls.map(([name]) => name)).toContain("sync")
})

test("where other hosts use a store without links to files, each file is on the disk before the next is made", () => {
  using store = new TemporaryStore(small, v6)
  store.files = { ...withoutLinks(recording.files), fileSystemType: onNfs }
  recording.calls.length = 0
  store.add("a")
  const isReservation = (path: unknown) => ["10.0.0.2", "fd00::2"].some((name) => path === store.path(name))
  const order = recording.calls.flatMap(([name, path]) =>
    name === "sync" || (name === "open" && isReservation(path)) ? name : [],
  )
  expect(order).toEqual(["open", "sync", "open", "sync"])
})
