import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Bus } from "./bus.ts"
import { DbusError } from "./message.ts"

const directory = mkdtempSync(join(tmpdir(), "cni-bus-"))
afterAll(() => rmSync(directory, { recursive: true }))

const welcome = "DATA\r\nOK 0123456789abcdef0123456789abcdef\r\n"

/** A return to a call, with one boolean; a signal before it, which is no answer. */
const answerTo = (serial: number) => [
  ...[0x6c, 4, 1, 1, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0],
  ...[0x6c, 2, 1, 1, 4, 0, 0, 0, 9, 0, 0, 0, 15, 0, 0, 0, 5, 1, 0x75, 0, serial, 0, 0, 0, 8, 1, 0x67, 0, 1, 0x62, 0, 0],
  ...[1, 0, 0, 0],
]

/** A bus, in a process of its own, that gives these answers, one to each thing that it receives. */
async function startBus(...answers: readonly (string | number[])[]): Promise<{ path: string } & AsyncDisposable> {
  const path = join(directory, crypto.randomUUID().slice(0, 8))
  const script = `
    const answers = ${JSON.stringify(answers)}
    const data = (socket) => {
      const answer = answers.shift()
      if (answer === "end") socket.end()
      else if (answer !== undefined) socket.write(typeof answer === "string" ? answer : Uint8Array.from(answer))
    }
    Bun.listen({ unix: ${JSON.stringify(path)}, socket: { data } })
    console.log("listening")`
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" })
  await child.stdout.getReader().read()
  return {
    path,
    async [Symbol.asyncDispose]() {
      child.kill()
      await child.exited
    },
  }
}

test("a bus is logged in to, and asked; signals are no answers", async () => {
  await using server = await startBus(welcome, answerTo(1), answerTo(2))
  using bus = Bus.find(server.path)
  expect(bus?.hasOwner("org.fedoraproject.FirewallD1")).toBe(true)
})

test("where nothing listens there is no bus", () => {
  expect(Bus.find(join(directory, "absent"))).toBeUndefined()
  expect(Bus.find("/dev/null")).toBeUndefined()
})

test.each([
  ["does not let us in", ["REJECTED EXTERNAL\r\nERROR\r\n"], "Cannot log in to the bus"],
  ["says too much", ["x".repeat(9000)], "Cannot log in to the bus: it says too much"],
  ["closes the connection", [welcome, "end"], "it has closed the connection"],
  ["answers with other bytes", [welcome, "HTTP/1.1 400 Bad Request\r\n"], "do not begin like a message"],
  ["answers a third thing", [welcome, answerTo(1).with(17, 66)], "neither a value nor an error"],
  ["does not answer", [welcome], "no answer within 100 ms"],
])("a bus that %s is an error", async (_, answers, says) => {
  await using server = await startBus(...answers)
  const attempt = () => Bus.find(server.path, 100)
  expect(attempt).toThrow(says)
  await using another = await startBus(...answers)
  expect(() => Bus.find(another.path, 100)).toThrow(DbusError)
})
