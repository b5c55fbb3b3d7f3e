import { expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import fc from "fast-check"
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

const line: FlightLine = { time: "2026-01-02T03:04:05.678Z", plugin: "bridge", verb: "ADD", ms: 8.25, exitCode: 0 }

function withRing(use: (path: string) => void): void {
  const directory = mkdtempSync(join(tmpdir(), "cni-flight-"))
  try {
    const path = join(directory, "ring")
    writeFileSync(path, emptyRing())
    use(path)
  } finally {
    rmSync(directory, { recursive: true })
  }
}

function record(path: string, one: FlightLine): boolean | undefined {
  using recorder = FlightRecorder.find(path)
  return recorder?.record(one)
}

const linesIn = (path: string) => readRing(readFileSync(path))

test("a recorder is off where there is no file, and leaves other files alone [S32]", () => {
  expect(FlightRecorder.find("/nowhere/ring")).toBeUndefined()
  withRing((path) => {
    writeFileSync(path, "something else")
    expect(record(path, line)).toBe(false)
    expect(readFileSync(path, "utf8")).toBe("something else")
  })
})

test("lines come back in their order, as text that grep reads", () => {
  withRing((path) => {
    for (const container of ["c1", "c2"]) expect(record(path, { ...line, container })).toBe(true)
    expect(linesIn(path)).toEqual([
      { sequence: 0, line: { ...line, container: "c1" } },
      { sequence: 1, line: { ...line, container: "c2" } },
    ])
    expect(readFileSync(path, "utf8").split("\n")[1]).toMatch(/^[0-9a-f]{8} \{"seq":0,"time":"2026/)
  })
})

test("the file keeps its size, and the newest lines", () => {
  withRing((path) => {
    for (let at = 0; at < RING_SLOTS + 5; at++) record(path, { ...line, container: `c${at}` })
    expect(statSync(path).size).toBe(RING_BYTES)
    const found = linesIn(path) ?? []
    expect(found).toHaveLength(RING_SLOTS)
    expect([found[0]?.line.container, found.at(-1)?.line.container]).toEqual(["c5", `c${RING_SLOTS + 4}`])
  })
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
  const directory = mkdtempSync(join(tmpdir(), "cni-flight-"))
  try {
    const path = join(directory, "ring")
    writeFileSync(path, emptyRing())
    const script = `
      const { FlightRecorder } = await import(${JSON.stringify(join(import.meta.dir, "mod.ts"))})
      for (let at = 0; at < 50; at++) {
        using recorder = FlightRecorder.find(${JSON.stringify(path)})
        while (!recorder.record({ ...${JSON.stringify(line)}, container: process.pid + "-" + at })) {}
      }`
    const writers = Array.from({ length: 4 }, () => Bun.spawn([process.execPath, "-e", script], { stderr: "inherit" }))
    expect(await Promise.all(writers.map((writer) => writer.exited))).toEqual([0, 0, 0, 0])
    const found = linesIn(path) ?? []
    expect(new Set(found.map(({ line: { container } }) => container)).size).toBe(200)
    expect(found.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 200 }, (_, at) => at))
  } finally {
    rmSync(directory, { recursive: true })
  }
}, 900_000)
