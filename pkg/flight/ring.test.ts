import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { FileDescriptor, Open, tryLock } from "../libc/mod.ts"
import { emptyRing, encodeLine, type FlightLine, FlightRecorder, readRing } from "./mod.ts"
import { encodeHead, readHead } from "./ring.ts"

const directory = mkdtempSync(join(tmpdir(), "cni-ring-"))
afterAll(() => rmSync(directory, { recursive: true }))

const line: FlightLine = { time: "2026-01-02T03:04:05.678Z", plugin: "bridge", verb: "ADD", ms: 8.25, exitCode: 0 }
const bytes = (text: string) => new TextEncoder().encode(text)

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

  const path = join(directory, "next")
  ring.set(encodeHead(1032))
  writeFileSync(path, ring)
  using recorder = FlightRecorder.find(path)
  expect(recorder?.record({ ...line, container: "c1032" })).toBe(true)
  ring.set(encodeHead(1033))
  ring.set(encodeLine({ ...line, container: "c1032" }, 1032, 1024), 9 * 1024)
  expect(Buffer.compare(readFileSync(path), ring)).toBe(0)
})

test("a ring that another keeps locked loses the line, and stays as it is", () => {
  const path = join(directory, "locked")
  writeFileSync(path, emptyRing())
  using holder = FileDescriptor.open(path, Open.ReadOnly)
  expect(tryLock(holder.fd)).toBe(true)
  using recorder = FlightRecorder.find(path)
  expect(recorder?.record(line)).toBe(false)
  expect(Buffer.compare(readFileSync(path), emptyRing())).toBe(0)
})
