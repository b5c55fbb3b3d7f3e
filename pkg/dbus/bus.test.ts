import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { answerTo, startBus, welcome } from "./bus.fixture.ts"
import { Bus } from "./bus.ts"
import { DbusError } from "./message.ts"

const directory = mkdtempSync(join(tmpdir(), "cni-bus-"))
afterAll(() => rmSync(directory, { recursive: true }))

test("a bus is logged in to, and asked; signals are no answers", async () => {
  await using server = await startBus(directory, welcome, answerTo(1), answerTo(2))
  using bus = Bus.find(server.path)
  expect(bus?.hasOwner("org.fedoraproject.FirewallD1")).toBe(true)
})

/** Calls to the bus itself; of the second only the preamble. By hand from D-Bus Specification, "Message Format". */
const hello = `6c01000100000000010000006d000000
  01016f00150000002f6f72672f667265656465736b746f702f44427573000000
  02017300140000006f72672e667265656465736b746f702e4442757300000000
  030173000500000048656c6c6f000000
  06017300140000006f72672e667265656465736b746f702e4442757300000000`
const hasOwner = "6c01000108000000020000007f000000"

test("it is told EXTERNAL, unix(7) SO_PEERCRED, then Hello, and then what is asked", async () => {
  await using server = await startBus(directory, welcome, answerTo(1), answerTo(2, 0))
  using bus = Bus.find(server.path)
  expect(bus?.hasOwner("a.b")).toBe(false)
  const [login = "", first, second = ""] = await server.received(3)
  expect(Buffer.from(login, "hex").toString("latin1")).toBe("\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n")
  expect(first).toBe(hello.replace(/\s/g, ""))
  expect(second.slice(0, 32)).toBe(hasOwner)
  expect(Buffer.from(second, "hex").toString("latin1")).toContain("NameHasOwner")
})

test("answers in pieces, answers together, and answers to others are all well", async () => {
  const all = [...Buffer.from(welcome), ...answerTo(1)]
  const pieces = [[...answerTo(1), ...answerTo(2)].slice(0, 5), [...answerTo(1), ...answerTo(2)].slice(5)] as never
  await using server = await startBus(directory, all, pieces)
  using bus = Bus.find(server.path)
  expect(bus?.hasOwner("a.b")).toBe(true)
})

/** Returns an answer to call 2: an error with this name, and with a text, a number or nothing as its value. */
function errorTo2(name: string, body: "text" | "number" | "nothing"): number[] {
  const pad = (bytes: number[], size: number) => [
    ...bytes,
    ...Array<number>((size - (bytes.length % size)) % size).fill(0),
  ]
  const text = (value: string) => [value.length, 0, 0, 0, ...Buffer.from(value), 0]
  const signature = { text: [8, 1, 0x67, 0, 1, 0x73, 0], number: [8, 1, 0x67, 0, 1, 0x75, 0], nothing: [] }[body]
  const fields = [...pad([4, 1, 0x73, 0, ...text(name)], 8), 5, 1, 0x75, 0, 2, 0, 0, 0, ...signature]
  const content = { text: text("no such zone"), number: [7, 0, 0, 0], nothing: [] }[body]
  const head = [0x6c, 3, 1, 1, content.length, 0, 0, 0, 9, 0, 0, 0, fields.length, 0, 0, 0]
  return [...pad([...head, ...fields], 8), ...content]
}

test.each([
  ["text", "no such zone"],
  ["number", "org.example.Error.Failed"],
  ["nothing", "org.example.Error.Failed"],
] as const)("a method's error with a %s is thrown with its name: %s", async (body, message) => {
  await using server = await startBus(directory, welcome, answerTo(1), errorTo2("org.example.Error.Failed", body))
  using bus = Bus.find(server.path)
  let error: unknown
  try {
    bus?.hasOwner("a.b")
  } catch (thrown) {
    error = thrown
  }
  expect(error).toBeInstanceOf(DbusError)
  expect(error).toMatchObject({ message, errorName: "org.example.Error.Failed" })
})

test("an answer of many thousand bytes is read whole", async () => {
  const names = Array.from({ length: 1000 }, (_, at) => `name-${String(at).padStart(10, "0")}`)
  const list = names.flatMap((name) => [15, 0, 0, 0, ...Buffer.from(name), 0]) // 20 bytes for each call
  const fields = [5, 1, 0x75, 0, 2, 0, 0, 0, 8, 1, 0x67, 0, 2, 0x61, 0x73, 0]
  const word = (value: number) => [value & 255, value >> 8, 0, 0]
  const head = [0x6c, 2, 1, 1, ...word(list.length + 4), 9, 0, 0, 0, ...word(fields.length)]
  await using server = await startBus(directory, welcome, answerTo(1), [
    ...head,
    ...fields,
    ...word(list.length),
    ...list,
  ])
  using bus = Bus.find(server.path)
  const call = { destination: "a.b", path: "/a", interface: "a.b", member: "List", args: [] }
  expect(bus?.call(call)).toEqual([names])
})

test.each([
  [4095, undefined],
  [4096, "Cannot authenticate at the system bus: its answer is too long"],
])("a line of %d bytes with its end is read: %p", async (length, refusal) => {
  const line = `OK ${"0".repeat(length - 5)}\r\n`
  await using server = await startBus(directory, `DATA\r\n${line}`, answerTo(1))
  const find = () => Bus.find(server.path)?.[Symbol.dispose]()
  if (refusal === undefined) expect(find).not.toThrow()
  else expect(find).toThrow(refusal)
})

test.each([
  ["REJECTED EXTERNAL\r\nOK 0\r\n", '"REJECTED EXTERNAL", "OK 0"'],
  ['DATA\r\nERROR "x"\r\n', '"DATA", "ERROR "x""'],
  ["DATA\rx\nx\r\nOKAY\r\n", '"DATA\rx\nx", "OKAY"'],
])("a bus that says %j does not let us in, and is quoted", async (says, quoted) => {
  await using server = await startBus(directory, says)
  expect(() => Bus.find(server.path)).toThrow(`Cannot authenticate at the system bus: it answered ${quoted}`)
})

test("the system's bus is the first that listens of those in DBUS_SYSTEM_BUS_ADDRESS", async () => {
  await using server = await startBus(directory, welcome, answerTo(1), answerTo(2))
  const script = `
    const { Bus } = await import(${JSON.stringify(join(import.meta.dir, "mod.ts"))})
    console.log(Bus.findSystem()?.hasOwner("a.b") ?? "none")`
  const found = (address: string) =>
    Bun.spawnSync([process.execPath, "-e", script], { env: { DBUS_SYSTEM_BUS_ADDRESS: address } }).stdout.toString()
  expect(found(`unix:path=${directory}/absent`)).toBe("none\n")
  expect(found(`unix:path=${directory}/absent;unix:path=${server.path}`)).toBe("true\n")
})

test("where nothing listens there is no bus", () => {
  expect(Bus.find(join(directory, "absent"))).toBeUndefined()
  expect(Bus.find("/dev/null")).toBeUndefined()
})

/** Calls a method twice and returns both errors. */
function refusalsOf(bus: Bus | undefined): unknown[] {
  return [1, 2].map(() => {
    try {
      return bus?.hasOwner("a.b")
    } catch (error) {
      return (error as Error).message
    }
  })
}

test("patience is for the whole connection: messages to others do not lengthen it, and then nothing more is asked", async () => {
  const signal = answerTo(0).slice(0, 16)
  await using server = await startBus(directory, welcome, answerTo(1), { forever: signal })
  using bus = Bus.find(server.path, 500)
  const late = "Cannot use the system bus: no answer within 500 ms"
  expect(refusalsOf(bus)).toEqual([late, late])
  expect(await server.received(3)).toHaveLength(3)
})

test("after bytes that are no answer the next call does not take the rest of it for its own", async () => {
  await using server = await startBus(directory, welcome, answerTo(1), [1, 2, 3, ...Array(13).fill(0), ...answerTo(3)])
  using bus = Bus.find(server.path)
  const garbage = "the bytes are not the beginning of a D-Bus message"
  expect(refusalsOf(bus)).toEqual([garbage, garbage])
})

test.each([
  ["refuses the login", ["REJECTED EXTERNAL\r\nERROR\r\n"], "Cannot authenticate at the system bus"],
  [
    "sends a line that is too long",
    ["x".repeat(9000)],
    "Cannot authenticate at the system bus: its answer is too long",
  ],
  ["closes the connection", [welcome, "end"], "it closed the connection"],
  ["answers with other bytes", [welcome, "HTTP/1.1 400 Bad Request\r\n"], "not the beginning of a D-Bus message"],
  ["answers a third thing", [welcome, answerTo(1).with(17, 66)], "neither a value nor an error"],
])("a bus that %s is an error", async (_, answers, says) => {
  await using server = await startBus(directory, ...answers)
  expect(() => Bus.find(server.path)).toThrow(says)
  await using another = await startBus(directory, ...answers)
  expect(() => Bus.find(another.path)).toThrow(DbusError)
})

test("a bus that does not answer is an error", async () => {
  await using server = await startBus(directory, welcome)
  expect(() => Bus.find(server.path, 100)).toThrow("no answer within 100 ms")
})
