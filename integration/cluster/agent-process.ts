import { join } from "node:path"
import { type Namespace, programEnv } from "../lab/mod.ts"

/** The built agent. */
export const agentProgram = join(import.meta.dir, "../../dist/cni-agent")

/** How an agent is started. */
export interface AgentStart {
  readonly config: string
  /** Gets what the agent writes, also that of others before it. */
  readonly log: string[]
  /** Another program that it runs under, with its arguments. */
  readonly under?: readonly string[]
}

/** One process of the built agent. */
export class AgentProcess {
  readonly #process: Bun.Subprocess<"ignore", "pipe", "pipe">
  readonly #drained: Promise<unknown>

  /** Starts it in a namespace. */
  constructor(namespace: Pick<Namespace, "commandLine">, { config, log, under = [] }: AgentStart) {
    const command = namespace.commandLine([...under, agentProgram, "run", "--config", config])
    this.#process = Bun.spawn(command, { env: { ...programEnv }, stdio: ["ignore", "pipe", "pipe"] })
    const keep = async (stream: ReadableStream<Uint8Array>) => {
      const decoder = new TextDecoder()
      for await (const bytes of stream) log.push(decoder.decode(bytes, { stream: true }))
    }
    this.#drained = Promise.all([keep(this.#process.stdout), keep(this.#process.stderr)])
  }

  get pid(): number {
    return this.#process.pid
  }

  get isRunning(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null
  }

  /** Sends it a signal, if it runs. */
  signal(signal: NodeJS.Signals): void {
    if (this.isRunning) this.#process.kill(signal)
  }

  /** Waits for its end, and for the last that it writes; answers how it ended. */
  async ended(): Promise<number> {
    const code = await this.#process.exited
    await this.#drained
    return code
  }
}
