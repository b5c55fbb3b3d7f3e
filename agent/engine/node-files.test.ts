import { expect, test } from "bun:test"
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { within } from "../../integration/lab/mod.ts"
import { FileDescriptor, Open, tryLock } from "../../pkg/libc/mod.ts"
import { podPool } from "../testing/world.ts"
import { poolFileOf } from "./held.ts"
import { openNodeFiles } from "./node-files.ts"
import type { Memory } from "./surroundings.ts"

/** The files of a node in a directory of its own, for the time of a test. */
function temporary() {
  const path = mkdtempSync(join(tmpdir(), "agent-node-files-"))
  const machineIdFile = join(path, "machine-id")
  writeFileSync(machineIdFile, "m1\n")
  const owner = { name: "a", uid: "1", machineId: "m1" }
  const poolDir = join(path, "pools")
  const dataDir = join(path, "networks")
  const open = () => openNodeFiles({ poolDir, dataDir, owner, log: () => {}, machineIdFile })
  return {
    path,
    poolDir,
    dataDir,
    machineIdFile,
    open,
    node: open(),
    [Symbol.dispose]: () => rmSync(path, { recursive: true }),
  }
}

const heldOf = (...blocks: string[]) => ({
  blocks: new Map(blocks.map((block) => [block, "owned" as const])),
  fixed: {},
  epoch: 1,
})

test("a pool file is written whole, and read back; what a killed agent has left does not matter", () => {
  using at = temporary()
  const file = poolFileOf(podPool, at.node, heldOf("10.64.0.16/28"))
  expect(at.node.readPool("pods")).toBeUndefined()
  writeFileSync(join(at.poolDir, ".new-pods.json"), "half")
  at.node.writePool(file)
  expect(at.node.readPool("pods")).toMatchObject({ ...file })
  expect(at.node.fileOf("pods")).toBe(join(at.poolDir, "pods.json"))
  expect(statSync(at.node.fileOf("pods")).mode & 0o777).toBe(0o644)
  expect(readdirSync(at.poolDir)).toEqual(["pods.json"])
  expect(at.node.listPools()).toEqual(["pods"])
  at.node.removePool("pods")
  at.node.removePool("pods")
  expect(at.node.listPools()).toEqual([])
})

test("a file that is torn, or of another machine, counts as none", () => {
  using at = temporary()
  at.node.writePool(poolFileOf(podPool, at.node, heldOf("10.64.0.16/28")))
  const text = readFileSync(at.node.fileOf("pods"), "utf8")
  writeFileSync(at.node.fileOf("pods"), text.slice(0, -9))
  expect(at.node.readPool("pods")).toBeUndefined()
  writeFileSync(at.node.fileOf("pods"), text)
  writeFileSync(at.machineIdFile, "m2\n")
  expect(at.node.readPool("pods")).toBeUndefined()
})

test("the memory survives; a torn one counts as absent", () => {
  using at = temporary()
  const memory: Memory = {
    bootId: "b",
    quarantined: { "pods/10.64.0.0/28": { version: "3", sinceMs: 7 } },
    epochs: { x: 2 },
    store: { cluster: "c", revision: "9" },
  }
  expect(at.node.readMemory()).toBeUndefined()
  at.node.writeMemory(memory)
  expect(at.open().readMemory()).toEqual(memory)
  const path = join(at.poolDir, ".agent.json")
  for (const text of ["", "{", "null", '{"bootId":"b"}', "\0\0\0"]) {
    writeFileSync(path, text)
    expect(at.node.readMemory()).toBeUndefined()
  }
  expect(at.node.listPools()).toEqual([])
})

test("reservations are those of host-local, under its lock where that matters", () => {
  using at = temporary()
  expect(at.node.reservations("pods-net")).toEqual([])
  expect(at.node.takenAddresses("pods-net")).toEqual([])
  expect(at.node.reservationsIn("pods-net", "10.64.0.16/28")).toEqual([])
  using watch = at.node.watchReservations("pods-net", () => {})
  watch.arm() // makes the store
  const store = at.node.storeOf("pods-net")
  writeFileSync(join(store, "10.64.0.18"), "abc\r\neth0", { mode: 0o600 })
  writeFileSync(join(store, "10.64.0.77"), "kept for the printer", { mode: 0o600 })
  expect(at.node.reservationsIn("pods-net", "10.64.0.16/28")).toEqual([
    { address: "10.64.0.18", id: "abc", ifName: "eth0" },
  ])
  expect([...at.node.reservations("pods-net")].sort((a, b) => (a.address < b.address ? -1 : 1))).toEqual([
    { address: "10.64.0.18", id: "abc", ifName: "eth0" },
    { address: "10.64.0.77", id: "", ifName: "" },
  ])
  writeFileSync(join(store, "notes.txt"), "no address")
  expect([...at.node.takenAddresses("pods-net")].sort()).toEqual(["10.64.0.18", "10.64.0.77"])
  using lock = FileDescriptor.open(join(store, "lock"), Open.ReadOnly)
  expect(tryLock(lock.fd)).toBe(true)
  expect(() => at.node.reservationsIn("pods-net", "10.64.0.16/28")).toThrow("Cannot lock")
})

test("an armed watch hears of the next ADD or DEL, once, also of an ADD that finds no address, and not of the agent's own look", async () => {
  using at = temporary()
  let changes = 0
  let wake = () => {}
  using watch = at.node.watchReservations("pods-net", () => {
    changes++
    wake()
  })
  const store = at.node.storeOf("pods-net")
  const changed = () => {
    watch.arm()
    at.node.reservationsIn("pods-net", "10.64.0.0/24")
    at.node.takenAddresses("pods-net")
    return within(new Promise<void>((resolve) => (wake = resolve)), "a change that the watch tells")
  }
  const draft = changed()
  writeFileSync(join(store, ".index/new/0123abcd"), "abc\r\neth0") // a draft, with which each ADD begins
  await draft
  for (let last = 20; last < 40; last++) writeFileSync(join(store, `10.64.0.${last}`), "abc\r\neth0") // not armed
  const reserved = changed()
  writeFileSync(join(store, "10.64.0.18"), "abc\r\neth0")
  await reserved
  const removed = changed()
  rmSync(join(store, "10.64.0.18"))
  await removed
  expect(changes).toBe(3)
  rmSync(store, { recursive: true })
  const anew = changed() // the store is made again
  writeFileSync(join(store, "10.64.0.18"), "abc\r\neth0")
  await anew
})
