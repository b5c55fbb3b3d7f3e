import { expect, test } from "bun:test"
import { encodeLine, type FlightLine, readSlot } from "./mod.ts"

const line: FlightLine = { time: "2026-01-02T03:04:05.678Z", plugin: "bridge", verb: "ADD", ms: 8.25, exitCode: 0 }
const json = (sequence: number) =>
  `{"seq":${sequence},"time":"2026-01-02T03:04:05.678Z","plugin":"bridge","verb":"ADD","ms":8.25,"exitCode":0}`

// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/) of the words from byte 12 on that are not all blanks. Computed by
// a separate program.
test.each([
  [3, "b50266df"],
  [20, "0f2356e9"],
])("line %d is its checksum %s, its JSON, blanks and a line's end", (sequence, sum) => {
  const slot = new TextDecoder().decode(encodeLine(line, sequence, 128))
  expect(slot).toBe(`${`${sum} ${json(sequence)}`.padEnd(127)}\n`)
  expect(readSlot(encodeLine(line, sequence, 128))).toEqual({ sequence, line })
})

test("a line that just fits is whole, and one that is a byte longer is shortened", () => {
  const changes = ["lease addresses", "create the veth pair"]
  const room = 1024 - '00000000 {"seq":0}\n'.length - JSON.stringify({ ...line, changes, container: "" }).length + 1
  const read = (length: number) => readSlot(encodeLine({ ...line, changes, container: "c".repeat(length) }, 0, 1024))
  expect(read(room)?.line).toEqual({ ...line, changes, container: "c".repeat(room) })
  expect(read(room + 1)?.line).toEqual({ ...line, changes: ["2 changes"], container: "c".repeat(room + 1) })
})

const changes = Array<string>(90).fill("create a link")
const error = "e".repeat(3000)
const trace = { id: "0".repeat(32), span: "1".repeat(16), parent: "2".repeat(16) }
const short = { container: "c1", changes: ["90 changes"] }
const cut = (length: number) => `${"e".repeat(length - 1)}…`

test.each<[string, Partial<FlightLine>, Partial<FlightLine>]>([
  ["the changes are counted", { container: "c1", changes, error: "short" }, { ...short, error: "short" }],
  ["and the error cut to 400 characters", { container: "c1", changes, error }, { ...short, error: cut(400) }],
  [
    "and further to 100",
    { container: "c1", changes, error, ips: Array(15).fill("2001:db8::1/64 and more"), trace },
    { ...short, error: cut(100), ips: Array(15).fill("2001:db8::1/64 and more"), trace },
  ],
  [
    "and then addresses, stages and trace are left out, and names are cut, but for those of 48 characters",
    { container: "c".repeat(49), netns: "n".repeat(48), changes, error, ips: changes, stages: { plugin: 3 }, trace },
    { ...short, container: `${"c".repeat(47)}…`, netns: "n".repeat(48), error: cut(48) },
  ],
])("of a line that is too long %s", (_, given, kept) => {
  expect(readSlot(encodeLine({ ...line, ...given }, 7, 1024))).toEqual({ sequence: 7, line: { ...line, ...kept } })
})
