import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import type { Readable } from "node:stream"
import { busyWaitsMs } from "../invoke/mod.ts"
import { CniError, Code } from "../types/mod.ts"
import type { Execution, Outcome } from "./exec.ts"
import { pause, throwIfStopped } from "./stop.ts"

const stdoutLimit = 16 * 1024 * 1024
const stderrKept = 64 * 1024
const drainMs = 1_000

/**
 * Runs a plugin in a process group of its own and waits for it. At the time limit, or when told to stop, the whole group
 * is killed: the plugin's own children do not outlive it. Throws code 5 when it cannot be started, and code 11 when it was
 * stopped or is still being written. `waitsMs` are the pauses between attempts to start a file that is still being written.
 */
export async function execute(execution: Execution, waitsMs: readonly number[] = busyWaitsMs): Promise<Outcome> {
  throwIfStopped(execution.signal)
  const child = await start(execution, waitsMs)
  const stop = new Stop(child.pid)
  const limit = execution.timeoutMs
  const timer = limit === undefined ? undefined : setTimeout(() => stop.now(`no answer within ${limit} ms`), limit)
  const aborted = () => stop.now("interrupted")
  execution.signal?.addEventListener("abort", aborted)
  if (execution.signal?.aborted) aborted() // between the first look and the start
  try {
    const stdout = new Collected(child.stdout, stdoutLimit, () => stop.now(`more than ${stdoutLimit} bytes on stdout`))
    const stderr = new Collected(child.stderr, stderrKept, () => {}, execution.stderr)
    child.stdin.on("error", () => {}) // a plugin need not read it
    child.stdin.end(execution.stdin)
    const [exitCode, signal] = await child.ended
    // A descendant that keeps the pipes open must not keep us: what the plugin itself wrote is already in them.
    const drained = setTimeout(() => void [stdout.cancel(), stderr.cancel()], drainMs)
    await Promise.all([stdout.closed, stderr.closed])
    clearTimeout(drained)
    if (stop.reason !== undefined) {
      const stopped = `stopped "${execution.file}": ${stop.reason}`
      throw new CniError(Code.TryAgainLater, `netplugin failed with no error message: ${stopped}`)
    }
    const cause = signal !== null ? `signal: ${signal}` : exitCode === 0 ? undefined : `exit status ${exitCode}`
    return { stdout: stdout.text, stderr: stderr.text, cause }
  } finally {
    clearTimeout(timer)
    execution.signal?.removeEventListener("abort", aborted)
  }
}

interface Child {
  readonly pid: number
  readonly stdin: NonNullable<ChildProcess["stdin"]>
  readonly stdout: Readable
  readonly stderr: Readable
  readonly ended: Promise<[exitCode: number | null, signal: string | null]>
}

/** Starts the plugin; one that is just being written is tried again, as installers of others write in place. */
async function start(execution: Execution, waitsMs: readonly number[]): Promise<Child> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await startOnce(execution)
    } catch (cause) {
      const busy = cause instanceof Error && "code" in cause && cause.code === "ETXTBSY"
      const waitMs = waitsMs[attempt]
      if (!busy || waitMs === undefined) {
        throw new CniError(busy ? Code.TryAgainLater : Code.Io, `Cannot start plugin "${execution.file}"`, { cause })
      }
      await pause(waitMs, execution.signal)
    }
  }
}

async function startOnce({ file, env }: Execution): Promise<Child> {
  // Detached: a session and a process group of its own.
  const child = spawn(file, [], { env, stdio: ["pipe", "pipe", "pipe"], detached: true })
  const ended = new Promise<[number | null, string | null]>((resolve) => {
    child.on("exit", (exitCode, signal) => resolve([exitCode, signal]))
  })
  if (child.pid === undefined) await once(child, "spawn") // throws why it was not started
  child.on("error", () => {}) // of a process that has ended
  const { pid = 0, stdin, stdout, stderr } = child
  return { pid, stdin, stdout, stderr, ended }
}

/** Kills a process group once and remembers why. */
class Stop {
  reason: string | undefined
  readonly #group: number

  constructor(group: number) {
    this.#group = group
  }

  now(reason: string): void {
    if (this.reason !== undefined) return
    this.reason = reason
    try {
      process.kill(-this.#group, "SIGKILL")
    } catch {
      // it ended by itself in the meantime
    }
  }
}

/** Reads a stream to its end, handing each chunk on, and keeps its first bytes. */
class Collected {
  readonly closed: Promise<void>
  readonly #stream: Readable
  readonly #chunks: Uint8Array[] = []
  #size = 0

  constructor(stream: Readable, keep: number, exceeded: () => void, pass?: Execution["stderr"]) {
    this.#stream = stream
    this.closed = new Promise((resolve) => stream.on("close", () => resolve()))
    stream.on("error", () => {}) // closed by us
    stream.on("data", (chunk: Uint8Array) => {
      pass?.(chunk)
      const room = keep - this.#size
      if (chunk.length > room) exceeded()
      if (room <= 0) return
      this.#chunks.push(chunk.subarray(0, room))
      this.#size += chunk.length
    })
  }

  get text(): string {
    return Buffer.concat(this.#chunks).toString("utf8")
  }

  cancel(): void {
    this.#stream.destroy()
  }
}
