import type { Namespace } from "../lab/mod.ts"
import { waitFor, waitLimitMs } from "../lab/mod.ts"

/** A program that runs until it is stopped, with its output so far. */
export class Running implements AsyncDisposable {
  readonly #process: Bun.Subprocess<"ignore", "pipe", "pipe">
  readonly #name: string
  readonly #reading: Promise<unknown>
  /** All text on stdout and stderr. */
  text = ""

  private constructor(name: string, process: Bun.Subprocess<"ignore", "pipe", "pipe">) {
    this.#name = name
    this.#process = process
    this.#reading = Promise.all([this.#collect(process.stdout), this.#collect(process.stderr)])
  }

  /** Starts a program in a namespace, and waits until its output matches `isReady`. */
  static async start(where: Namespace, command: readonly string[], isReady: RegExp): Promise<Running> {
    const environment = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" }
    const spawned = Bun.spawn(where.commandLine(command), {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      env: environment,
    })
    const running = new Running(command.slice(0, 2).join(" "), spawned)
    try {
      await running.waitFor(isReady)
    } catch (error) {
      await running[Symbol.asyncDispose]()
      throw error
    }
    return running
  }

  async #collect(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder()
    for await (const piece of stream) this.text += decoder.decode(piece, { stream: true })
  }

  /** Waits until the program's output from index `from` matches the pattern. */
  async waitFor(pattern: RegExp, deadlineMs = waitLimitMs, from = 0): Promise<RegExpExecArray> {
    try {
      return await waitFor(() => pattern.exec(this.text.slice(from)), `${this.#name} to write ${pattern}`, deadlineMs)
    } catch (error) {
      throw new Error(`${this.#name} has written:\n${this.text.slice(-4000)}`, { cause: error })
    }
  }

  get pid(): number {
    return this.#process.pid
  }

  /** Returns the number of matches in the program's output. */
  count(pattern: RegExp): number {
    return this.text.match(new RegExp(pattern, "g"))?.length ?? 0
  }

  /** Sends a signal and waits until the program has ended. */
  async end(signal: "SIGTERM" | "SIGKILL" | "SIGINT" = "SIGTERM"): Promise<void> {
    this.#process.kill(signal)
    await this.#process.exited
    await this.#reading
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end("SIGKILL")
  }
}
