import { busyWaitsMs } from "../invoke/mod.ts"
import { CniError, Code } from "../types/mod.ts"

/** One run of one plugin. */
export interface Execution {
  /** Absolute path of the plugin. */
  readonly file: string
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>
  readonly stdin: string
  /** Gets what the plugin writes to stderr, as it writes it. */
  readonly stderr: (chunk: Uint8Array) => void
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

/** How a plugin ended. `cause` is undefined for exit code 0, else "exit status 3" or "signal: SIGKILL". */
export interface Outcome {
  readonly stdout: string
  /** The first part of stderr. */
  readonly stderr: string
  readonly cause: string | undefined
}

const stdoutLimit = 16 * 1024 * 1024
const stderrKept = 64 * 1024
const drainMs = 1_000

/**
 * Runs a plugin in a process group of its own and waits for it. At the time limit, or when told to stop, the whole group
 * is killed: the plugin's own children do not outlive it. Throws code 5 when it cannot be started, and code 11 when it was
 * stopped or is still being written. `waitsMs` are the pauses between attempts to start a file that is still being written.
 */
export async function execute(execution: Execution, waitsMs: readonly number[] = busyWaitsMs): Promise<Outcome> {
  execution.signal?.throwIfAborted()
  const child = await start(execution, waitsMs)
  const stop = new Stop(child.pid)
  const limit = execution.timeoutMs
  const timer = limit === undefined ? undefined : setTimeout(() => stop.now(`no answer within ${limit} ms`), limit)
  const aborted = () => stop.now("interrupted")
  execution.signal?.addEventListener("abort", aborted)
  if (execution.signal?.aborted) aborted() // between the first look and the start
  try {
    const stdout = collect(child.stdout, stdoutLimit, () => stop.now(`more than ${stdoutLimit} bytes on stdout`))
    const stderr = collect(child.stderr, stderrKept, () => {}, execution.stderr)
    await child.exited
    // A descendant that keeps the pipes open must not keep us: what the plugin itself wrote is already in them.
    const drained = setTimeout(() => void [stdout.cancel(), stderr.cancel()], drainMs)
    await Promise.all([stdout.done, stderr.done])
    clearTimeout(drained)
    if (stop.reason !== undefined) {
      const stopped = `stopped "${execution.file}": ${stop.reason}`
      throw new CniError(Code.TryAgainLater, `netplugin failed with no error message: ${stopped}`)
    }
    return { stdout: stdout.text(), stderr: stderr.text(), cause: causeOf(child) }
  } finally {
    clearTimeout(timer)
    execution.signal?.removeEventListener("abort", aborted)
  }
}

type Child = Bun.Subprocess<Uint8Array, "pipe", "pipe">

/** Starts the plugin; one that is just being written is tried again, as installers of others write in place. */
async function start({ file, env, stdin, signal }: Execution, waitsMs: readonly number[]): Promise<Child> {
  for (let attempt = 0; ; attempt++) {
    try {
      return Bun.spawn([file], {
        env,
        stdin: new TextEncoder().encode(stdin),
        stdout: "pipe",
        stderr: "pipe",
        detached: true, // a session and a process group of its own
      })
    } catch (cause) {
      const busy = cause instanceof Error && "code" in cause && cause.code === "ETXTBSY"
      const waitMs = waitsMs[attempt]
      if (!busy || waitMs === undefined) {
        throw new CniError(busy ? Code.TryAgainLater : Code.Io, `Cannot start plugin "${file}"`, { cause })
      }
      await Bun.sleep(waitMs)
      signal?.throwIfAborted()
    }
  }
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
function collect(stream: ReadableStream<Uint8Array>, keep: number, exceeded: () => void, pass?: Execution["stderr"]) {
  const reader = stream.getReader()
  const chunks: Uint8Array[] = []
  let size = 0
  const read = async () => {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      pass?.(next.value)
      const room = keep - size
      if (next.value.length > room) exceeded()
      if (room <= 0) continue
      chunks.push(next.value.subarray(0, room))
      size += next.value.length
    }
  }
  return {
    done: read(),
    text: () => Buffer.concat(chunks).toString("utf8"),
    cancel: () => void reader.cancel(),
  }
}

function causeOf(child: Child): string | undefined {
  if (child.signalCode !== null) return `signal: ${child.signalCode}`
  return child.exitCode === 0 ? undefined : `exit status ${child.exitCode}`
}
