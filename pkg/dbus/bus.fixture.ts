import { join } from "node:path"

/** The answers of a bus that accepts a client. */
export const welcome = "DATA\r\nOK 0123456789abcdef0123456789abcdef\r\n"

/** Returns a signal, which is not an answer, and then a boolean as the answer to the call with this number. */
export const answerTo = (serial: number, truth = 1) => [
  ...[0x6c, 4, 1, 1, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0],
  ...[0x6c, 2, 1, 1, 4, 0, 0, 0, 9, 0, 0, 0, 15, 0, 0, 0, 5, 1, 0x75, 0, serial, 0, 0, 0, 8, 1, 0x67, 0, 1, 0x62, 0, 0],
  ...[truth, 0, 0, 0],
]

/** A bus's answer to a message: text, bytes, several in order, bytes repeated forever, or "end" to disconnect. */
export type Answer = string | readonly number[] | readonly string[] | { forever: readonly number[] }

/** A bus in a process of its own. It records the bytes that it receives, in hexadecimal. */
export interface TestBus extends AsyncDisposable {
  readonly path: string
  /** Waits until this many messages have been received, and returns them. */
  received(count: number): Promise<string[]>
}

/**
 * Starts a bus that replies to each message with the next of `answers`, and sends the parts of an answer one by one.
 */
export async function startBus(directory: string, ...answers: readonly Answer[]): Promise<TestBus> {
  const path = join(directory, crypto.randomUUID().slice(0, 8))
  const script = `
    const answers = ${JSON.stringify(answers)}
    const say = (socket, part) => socket.write(typeof part === "string" ? part : Uint8Array.from(part))
    const data = async (socket, bytes) => {
      console.log(bytes.toHex())
      const answer = answers.shift()
      if (answer === "end") socket.end()
      else if (answer?.forever) setInterval(() => say(socket, answer.forever), 10)
      else if (Array.isArray(answer) && typeof answer[0] !== "number") {
        for (const part of answer) {
          say(socket, part)
          socket.flush()
          await new Promise((resolve) => setImmediate(resolve))
        }
      } else if (answer !== undefined) say(socket, answer)
    }
    Bun.listen({ unix: ${JSON.stringify(path)}, socket: { data } })
    console.log("listening")`
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" })
  const output = child.stdout.getReader()
  let text = ""
  const lines = async (count: number) => {
    while (text.split("\n").length <= count) {
      const { value, done } = await output.read()
      if (done) throw new Error(`the bus has ended: ${text}`)
      text += new TextDecoder().decode(value)
    }
    return text.split("\n").slice(0, count)
  }
  await lines(1)
  return {
    path,
    received: async (count) => (await lines(count + 1)).slice(1),
    async [Symbol.asyncDispose]() {
      child.kill()
      await child.exited
    },
  }
}
