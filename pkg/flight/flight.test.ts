import { expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import fc from "fast-check"
import { FileDescriptor, Open, tryLock } from "../libc/mod.ts"
import { anyCharacter } from "../types/testing/any-character.ts"
import {
  emptyRing,
  encodeLine,
  type FlightLine,
  FlightRecorder,
  RING_BYTES,
  RING_SLOTS,
  readRing,
  readSlot,
  SLOT_BYTES,
} from "./mod.ts"
import { encodeHead, readHead } from "./ring.ts"

const line: FlightLine = { time: "2026-01-02T03:04:05.678Z", plugin: "bridge", verb: "ADD", ms: 8.25, exitCode: 0 }

const bytes = (text: string) => new TextEncoder().encode(text)

class Ring implements Disposable {
  readonly #directory = mkdtempSync(join(tmpdir(), "cni-flight-"))
  readonly path = join(this.#directory, "ring")

  constructor() {
    writeFileSync(this.path, emptyRing())
  }

  get lines() {
    return readRing(readFileSync(this.path))
  }

  record(one: FlightLine): boolean | undefined {
    using recorder = FlightRecorder.find(this.path)
    return recorder?.record(one)
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true })
  }
}

test("a new ring is 1 MiB and a head of blank lines, of which the first says that the next line is the first", () => {
  const blank = `${" ".repeat(1023)}\n`
  expect(new TextDecoder().decode(emptyRing())).toBe(
    `${"cni-flight-recorder 1 000000000000".padEnd(1023)}\n${blank.repeat(1024)}`,
  )
})

test("a head has twelve digits after its name, and nothing else is one", () => {
  expect(encodeHead(1031)).toEqual(bytes("cni-flight-recorder 1 000000001031"))
  expect(readHead(bytes("cni-flight-recorder 1 000000001031 and more"))).toBe(1031)
  for (const text of [
    "",
    "cni-flight-recorder 1",
    "cni-flight-recorder 2 000000001031",
    "cni-flight-recorder 1 00000000103x",
  ])
    expect([text, readHead(bytes(text))]).toEqual([text, undefined])
  expect(readHead(bytes("cni-flight-recorder 1x000000001031"))).toBeUndefined()
})

test("line 1031 is in slot 7 of 1024, and the lines of a ring come in the order of their numbers", () => {
  const ring = emptyRing()
  ring.set(encodeLine({ ...line, container: "c1031" }, 1031, 1024), 8 * 1024)
  ring.set(encodeLine({ ...line, container: "c8" }, 8, 1024), 9 * 1024)
  const found = (whole: Uint8Array) => readRing(whole)?.map(({ sequence, line }) => [sequence, line.container])
  expect(found(ring)).toEqual([
    [8, "c8"],
    [1031, "c1031"],
  ])
  expect(found(ring.subarray(0, 10 * 1024))).toHaveLength(2)
  expect(found(ring.subarray(0, 10 * 1024 - 1))).toEqual([[1031, "c1031"]])

  using lab = new Ring()
  ring.set(encodeHead(1032))
  writeFileSync(lab.path, ring)
  expect(lab.record({ ...line, container: "c1032" })).toBe(true)
  ring.set(encodeHead(1033))
  ring.set(encodeLine({ ...line, container: "c1032" }, 1032, 1024), 9 * 1024)
  expect(Buffer.compare(readFileSync(lab.path), ring)).toBe(0)
})

test("a ring that another keeps locked loses the line, and stays as it is", () => {
  using ring = new Ring()
  using holder = FileDescriptor.open(ring.path, Open.ReadOnly)
  expect(tryLock(holder.fd)).toBe(true)
  expect(ring.record(line)).toBe(false)
  expect(Buffer.compare(readFileSync(ring.path), emptyRing())).toBe(0)
})

test("a recorder is off where there is no file, and leaves other files alone [S32]", () => {
  expect(FlightRecorder.find("/nowhere/ring")).toBeUndefined()
  using ring = new Ring()
  writeFileSync(ring.path, "something else")
  expect(ring.record(line)).toBe(false)
  expect(readFileSync(ring.path, "utf8")).toBe("something else")
})

test("lines come back in their order, as text that grep reads", () => {
  using ring = new Ring()
  for (const container of ["c1", "c2"]) expect(ring.record({ ...line, container })).toBe(true)
  expect(ring.lines).toEqual([
    { sequence: 0, line: { ...line, container: "c1" } },
    { sequence: 1, line: { ...line, container: "c2" } },
  ])
  expect(readFileSync(ring.path, "utf8").split("\n")[1]).toMatch(/^[0-9a-f]{8} \{"seq":0,"time":"2026/)
})

test("the file keeps its size, and the newest lines", () => {
  using ring = new Ring()
  for (let at = 0; at < RING_SLOTS + 5; at++) ring.record({ ...line, container: `c${at}` })
  expect(statSync(ring.path).size).toBe(RING_BYTES)
  const found = ring.lines ?? []
  expect(found).toHaveLength(RING_SLOTS)
  expect([found[0]?.line.container, found.at(-1)?.line.container]).toEqual(["c5", `c${RING_SLOTS + 4}`])
})

test("torn at any byte, the slot is the old line, the new line, or none", () => {
  const older = encodeLine({ ...line, container: "older", error: "x".repeat(300), exitCode: 1 }, 7, SLOT_BYTES)
  const newer = encodeLine({ ...line, container: "newer", changes: ["lease addresses"] }, 1031, SLOT_BYTES)
  for (const [before, after] of [
    [older, newer],
    [newer, older],
  ] as const) {
    const whole = [readSlot(before), readSlot(after)]
    expect(whole.every((one) => one !== undefined)).toBe(true)
    for (let at = 0; at <= SLOT_BYTES; at++) {
      const torn = new Uint8Array(before)
      torn.set(after.subarray(0, at))
      const found = readSlot(torn)
      if (found) expect(whole).toContainEqual(found)
    }
  }
})

test("a byte that changes makes a line unreadable, at each place", () => {
  const slot = encodeLine({ ...line, container: "c1" }, 3, SLOT_BYTES)
  const end = slot.indexOf(0x7d) + 1
  for (let at = 0; at < end; at++) {
    const changed = slot.with(at, (slot[at] ?? 0) ^ 1)
    expect([at, readSlot(changed)]).toEqual([at, undefined])
  }
})

test("a line with any content fits, and says at least who was called", () => {
  const text = fc.string({ unit: anyCharacter, maxLength: 3000 })
  fc.assert(
    fc.property(text, text, fc.array(text, { maxLength: 20 }), (container, error, changes) => {
      const slot = encodeLine({ ...line, container, error, changes, ips: changes }, 5, SLOT_BYTES)
      expect(slot).toHaveLength(SLOT_BYTES)
      expect(slot[SLOT_BYTES - 1]).toBe(0x0a)
      expect(slot.subarray(0, -1)).not.toContain(0x0a)
      expect(readSlot(slot)).toMatchObject({ sequence: 5, line: { plugin: "bridge", verb: "ADD" } })
    }),
  )
})

test("bytes by chance are no line and no ring", () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: SLOT_BYTES, maxLength: SLOT_BYTES }),
      (bytes) => readSlot(bytes) === undefined,
    ),
  )
  fc.assert(fc.property(fc.uint8Array(), (bytes) => readRing(bytes) === undefined))
})

test("processes that write at the same time lose no line and mix none", async () => {
  using ring = new Ring()
  const script = `
    const { FlightRecorder } = await import(${JSON.stringify(join(import.meta.dir, "mod.ts"))})
    for (let at = 0; at < 50; at++) {
      using recorder = FlightRecorder.find(${JSON.stringify(ring.path)})
      while (!recorder.record({ ...${JSON.stringify(line)}, container: process.pid + "-" + at })) {}
    }`
  const writers = Array.from({ length: 4 }, () => Bun.spawn([process.execPath, "-e", script], { stderr: "inherit" }))
  expect(await Promise.all(writers.map((writer) => writer.exited))).toEqual([0, 0, 0, 0])
  const found = ring.lines ?? []
  expect(new Set(found.map(({ line: { container } }) => container)).size).toBe(200)
  expect(found.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 200 }, (_, at) => at))
}, 900_000)
