import { existsSync } from "node:fs"
import { readFile, rm } from "node:fs/promises"
import { join } from "node:path"
import type { NodeLab } from "../cni/node-lab.ts"
import { CProgram, type EchoQuestion, type Namespace, programEnv, waitFor } from "../lab/mod.ts"

/** The state that the listener writes to /run/cni/reconcile.json. */
export interface ListenerRecord {
  readonly pid: number
  readonly counts: readonly { readonly trigger: string; readonly result: string; readonly count: number }[]
  readonly outage: { readonly buckets: readonly number[]; readonly seconds: number; readonly count: number }
  readonly losses: readonly { readonly what: string; readonly reason: string }[]
}

export class RunningListener implements AsyncDisposable {
  readonly node: NodeLab
  readonly #program: Bun.Subprocess<"ignore", "ignore", "pipe">
  said = ""
  hasEnded = false
  /** A promise of the output, which resolves when the listener has ended. */
  readonly ended: Promise<string>

  private constructor(node: NodeLab, under: readonly string[]) {
    const command = node.commandLine(["reconcile", "--listen"], under)
    this.node = node
    this.#program = Bun.spawn(command, { env: { ...programEnv, ...node.env() }, stdio: ["ignore", "ignore", "pipe"] })
    this.ended = this.#read()
  }

  async #read(): Promise<string> {
    const decoder = new TextDecoder()
    for await (const chunk of this.#program.stderr) this.said += decoder.decode(chunk)
    await this.#program.exited
    this.hasEnded = true
    return this.said
  }

  /**
   * Starts the listener under the command `under`, and waits until the listener is ready, cannot write its record, or
   * ends.
   */
  static async startUnder(node: NodeLab, under: readonly string[]): Promise<RunningListener> {
    const record = node.host.file("/run/cni/reconcile.json")
    await rm(record, { force: true })
    const listener = new RunningListener(node, under)
    await waitFor(
      () => listener.hasEnded || /listening|cannot write/.test(listener.said) || existsSync(record),
      `the listener to listen, or to end, under "${under.slice(1).join(" ")}"`,
    )
    return listener
  }

  /** Starts the listener and waits until it has completed the first check. */
  static async start(node: NodeLab): Promise<RunningListener> {
    const record = Bun.file(node.host.file("/run/cni/reconcile.json"))
    const { pid: former } = (await record.exists()) ? ((await record.json()) as ListenerRecord) : { pid: 0 }
    const listener = new RunningListener(node, [])
    await listener.until(
      ({ pid, counts }) => pid !== former && counts.some(({ trigger }) => trigger === "start"),
      "the first look",
    )
    return listener
  }

  get pid(): number {
    return this.#program.pid
  }

  /** Sends SIGTERM to the listener, not to the program that runs it. Reports whether the listener still existed. */
  async askToEnd(): Promise<boolean> {
    const children = await readFile(`/proc/${this.pid}/task/${this.pid}/children`, "utf8").catch(() => "")
    const pid = Number(children.split(" ")[0])
    try {
      return pid > 0 && process.kill(pid, "SIGTERM")
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ESRCH") return false
      throw error
    }
  }

  async record(): Promise<ListenerRecord> {
    return JSON.parse(await readFile(this.node.host.file("/run/cni/reconcile.json"), "utf8")) as ListenerRecord
  }

  /** Waits until the listener's record fulfills a condition. */
  async until(condition: (record: ListenerRecord) => boolean, what: string): Promise<ListenerRecord> {
    try {
      return await waitFor(async () => {
        const record = await this.record()
        return condition(record) && record
      }, what)
    } catch (cause) {
      throw new Error(`the listener has said: ${this.said}`, { cause })
    }
  }

  /** Sends a signal, waits until the listener ends, and returns the exit code. */
  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<number> {
    this.#program.kill(signal)
    return this.#program.exited
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end("SIGKILL")
  }
}

/** The counters that `flows.c` prints. */
export interface Flows {
  readonly sent: number
  readonly lost: number
  readonly longestMs: number
  readonly isBack: boolean
}

/** A program that starts a new flow every millisecond from a namespace, and counts the answers. */
export class FlowMeter implements AsyncDisposable {
  readonly #built: CProgram

  private constructor(built: CProgram) {
    this.#built = built
  }

  static async build(): Promise<FlowMeter> {
    return new FlowMeter(await CProgram.build(join(import.meta.dir, "flows.c")))
  }

  async during(from: Namespace, { transport, address, port }: EchoQuestion, act: () => Promise<void>): Promise<Flows> {
    const command = from.commandLine([this.#built.path, transport, address, String(port)])
    const program = Bun.spawn(command, { env: { ...programEnv }, stdio: ["pipe", "pipe", "inherit"] })
    const reader = program.stdout.getReader()
    await reader.read() // the line "begun"
    await act()
    await Bun.sleep(100) // later flows show whether everything is restored
    await program.stdin.end()
    let text = ""
    for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read())
      text += new TextDecoder().decode(chunk.value)
    await program.exited
    return JSON.parse(text) as Flows
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#built[Symbol.asyncDispose]()
  }
}
