import { join } from "node:path"
import { CProgram, namespacePrefix } from "../lab/mod.ts"

/** How the names of the containers end that the referee looks at. */
export const containerLabel = "-c"

/** What a referee has seen in all. */
export interface Record {
  /** Lines "twice ADDRESS ONE OTHER". */
  readonly twice: readonly string[]
  readonly looks: number
  /** The most at any look. */
  readonly containers: number
  readonly addresses: number
}

/**
 * Watches from outside of all agents: a process of its own reads the addresses of all containers of this test process from the kernel every
 * 100 ms, and notes an address that two containers have at one instant.
 */
export class Referee implements AsyncDisposable {
  readonly #program: CProgram
  readonly #process: Bun.Subprocess<"ignore", "pipe", "inherit">
  readonly #ended: Promise<void>
  #output = ""

  private constructor(program: CProgram, process: Bun.Subprocess<"ignore", "pipe", "inherit">) {
    this.#program = program
    this.#process = process
    this.#ended = this.#read(process.stdout)
  }

  static async start(intervalMs = 100): Promise<Referee> {
    const program = await CProgram.build(join(import.meta.dir, "referee.c"))
    const command = [program.path, namespacePrefix(process.pid), containerLabel, String(intervalMs)]
    const referee = Bun.spawn(command, { stdin: "ignore", stdout: "pipe", stderr: "inherit" })
    return new Referee(program, referee)
  }

  /** How many lines it has written. */
  get findings(): number {
    return this.#output.split("\n").length - 1
  }

  async #read(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder()
    for await (const bytes of stream) this.#output += decoder.decode(bytes, { stream: true })
  }

  /** Ends the watch, and says what it has seen. */
  async end(): Promise<Record> {
    this.#process.kill("SIGTERM")
    await this.#ended
    const lines = this.#output.trim().split("\n")
    const [, looks, containers, addresses] =
      /^looks (\d+) containers (\d+) addresses (\d+)$/.exec(lines.at(-1) ?? "") ?? []
    if (looks === undefined)
      throw new Error(
        `the referee ended early, by ${this.#process.signalCode ?? this.#process.exitCode}: ${lines.join("; ")}`,
      )
    const twice = lines.filter((line) => line.startsWith("twice "))
    return { twice, looks: Number(looks), containers: Number(containers), addresses: Number(addresses) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL")
    await this.#process.exited
    await this.#program[Symbol.asyncDispose]()
  }
}
