/**
 * Sends datagrams from one socket until it is killed, and prints each answer on a line.
 *
 *   bun integration/lab/echo/udp-flow.ts ADDRESS PORT
 */
import { execa } from "execa"
import type { Namespace } from "../namespace.ts"
import { programEnv } from "../program.ts"
import { waitFor } from "../wait-for.ts"
import type { EchoReply } from "./server.ts"

const INTERVAL_MS = 20

/** An endless UDP flow whose answers name the server that sent them. All datagrams use the same addresses and ports. */
export class UdpFlow implements AsyncDisposable {
  readonly #answers: string[] = []
  readonly #stop: () => Promise<void>

  constructor(from: Namespace, address: string, port: number) {
    const [file = "", ...args] = from.commandLine([process.execPath, import.meta.path, address, String(port)])
    const client = execa(file, args, { env: programEnv, extendEnv: false, stdin: "ignore", reject: false })
    client.stdout.on("data", (text) => this.#answers.push(...String(text).split("\n").filter(Boolean)))
    this.#stop = async () => {
      client.kill("SIGKILL")
      await client
    }
  }

  /** Waits until the server on this port sends the answers. Throws after the time limit. */
  async answeredBy(port: number): Promise<void> {
    const isFrom = (line: string | undefined) => line !== undefined && (JSON.parse(line) as EchoReply).to.port === port
    await waitFor(() => isFrom(this.#answers.at(-1)), `the flow to be answered from port ${port}`)
  }

  /** Waits until no more answers arrive. Throws after the time limit. */
  async unanswered(): Promise<void> {
    let count = -1
    await waitFor(async () => {
      const before = count
      count = this.#answers.length
      await Bun.sleep(5 * INTERVAL_MS)
      return before === this.#answers.length
    }, "the flow to be answered no more")
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop()
  }
}

if (import.meta.main) {
  const [, , address = "", port = "0"] = process.argv
  const socket = await Bun.udpSocket({
    hostname: address.includes(":") ? "::" : "0.0.0.0",
    socket: { data: (_, bytes) => console.log(bytes.toString()) },
  })
  for (;;) {
    socket.send("still here", Number(port), address)
    await Bun.sleep(INTERVAL_MS)
  }
}
