import { join } from "node:path"
import { execa } from "execa"
import type { Namespace } from "../namespace.ts"
import { programEnv } from "../program.ts"
import { scaleTimeout, waitLimitMs } from "../wait-for.ts"
import type { EchoReply, Transport } from "./server.ts"

export type { EchoReply, Transport } from "./server.ts"

/**
 * A server in a namespace that answers TCP and UDP messages with the source and destination addresses of the message. A
 * test of address translation compares them.
 *
 * @example
 * await using peer = await EchoPeer.start(internet, { address: "203.0.113.9" })
 * const { from } = await askEcho(pod, { transport: "udp", address: "203.0.113.9", port: peer.port })
 */
export class EchoPeer implements AsyncDisposable {
  /** The port, the same for TCP and UDP. */
  readonly port: number
  readonly #stop: () => Promise<void>

  private constructor(port: number, stop: () => Promise<void>) {
    this.port = port
    this.#stop = stop
  }

  /** Starts a server and waits until it listens, by default on all addresses and any free port. */
  static async start(where: Namespace, at: { address?: string; port?: number } = {}): Promise<EchoPeer> {
    const command = [process.execPath, join(import.meta.dir, "server.ts"), at.address ?? "::", String(at.port ?? 0)]
    const [file = "", ...args] = where.commandLine(command)
    const server = execa(file, args, { env: programEnv, extendEnv: false, stdin: "ignore", reject: false })
    const ready = Promise.withResolvers<string>()
    server.stdout.once("data", (line) => ready.resolve(String(line)))
    const line = await Promise.race([ready.promise, server])
    if (typeof line !== "string") throw new Error(`Cannot start an echo peer in ${where.name}: ${line.stderr}`)
    return new EchoPeer(Number(line), async () => {
      server.kill("SIGKILL")
      await server
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop()
  }
}

export interface EchoQuestion {
  readonly transport: Transport
  readonly address: string
  readonly port: number
  readonly message?: string
}

/** Sends a message from a namespace, and returns the answer. Throws `ProgramError` if no answer arrives. */
export async function askEcho(from: Namespace, question: EchoQuestion): Promise<EchoReply> {
  const { stdout } = await from.exec(process.execPath, clientArgs(question, scaleTimeout(waitLimitMs)))
  return JSON.parse(stdout) as EchoReply
}

/** Sends a message that must not be answered, and waits half a second. Throws if an answer arrives. */
export async function expectNoEcho(from: Namespace, question: EchoQuestion): Promise<void> {
  const { exitCode, stdout, stderr } = await from.tryExec(process.execPath, clientArgs(question, 500))
  if (exitCode !== 1) throw new Error(`Expected no answer in ${from.name}, found ${stdout || stderr}`)
}

function clientArgs({ transport, address, port, message = "hello" }: EchoQuestion, deadlineMs: number): string[] {
  return [join(import.meta.dir, "client.ts"), transport, address, String(port), message, String(deadlineMs)]
}
