import { decodeUtf8, encodeUtf8 } from "../engine/mod.ts"
import { busyWaitsMs } from "../invoke/mod.ts"
import { isErrno } from "../libc/mod.ts"
import { type Ended, runProgram } from "../loop/mod.ts"
import { CniError, Code } from "../types/mod.ts"
import type { Execution, Outcome } from "./exec.ts"
import { pause, throwIfStopped } from "./stop.ts"

const stdoutLimit = 16 * 1024 * 1024
const stderrKept = 64 * 1024
/** The time to wait for pipes that descendants hold after the plugin's end. They already contain its output. */
const drainMs = 1_000

/**
 * Runs a plugin in its own process group and waits for it. At the timeout, or when aborted, kills the whole group, so
 * that the plugin's children do not outlive it. Throws code 5 if it cannot be started, and code 11 if it was stopped or
 * its file is still being written. `waitsMs` are the pauses between attempts to start a file that is being written.
 */
export async function execute(execution: Execution, waitsMs: readonly number[] = busyWaitsMs): Promise<Outcome> {
  throwIfStopped(execution.signal)
  const stderr = new FirstBytes(stderrKept)
  const ended = await run(execution, waitsMs, (chunk) => {
    execution.stderr(chunk)
    stderr.add(chunk)
  })
  const reason = reasonOfStop(ended, execution)
  if (reason !== undefined) {
    const stopped = `stopped "${execution.file}": ${reason}`
    throw new CniError(Code.TryAgainLater, `netplugin failed with no error message: ${stopped}`)
  }
  const { exitCode, signal, stdout } = ended
  const cause = signal !== undefined ? `signal: ${signal}` : exitCode === 0 ? undefined : `exit status ${exitCode}`
  return { stdout: decodeUtf8(stdout), stderr: decodeUtf8(stderr.bytes), cause }
}

function reasonOfStop(ended: Ended, { timeoutMs }: Execution): string | undefined {
  if (ended.stopped) return "interrupted"
  if (ended.timedOut) return `no answer within ${timeoutMs} ms`
  return ended.wroteTooMuch ? `more than ${stdoutLimit} bytes on stdout` : undefined
}

/** Runs the plugin. If its file is being written, tries again, because some installers overwrite files in place. */
async function run(
  { file, env, stdin, timeoutMs, signal }: Execution,
  waitsMs: readonly number[],
  onStderr: (chunk: Uint8Array) => void,
): Promise<Ended> {
  const limits = { outputLimit: stdoutLimit, drainMs, ...(timeoutMs === undefined ? {} : { timeoutMs }) }
  const program = { path: file, env, stdin: encodeUtf8(stdin), ownSession: true, onStderr, ...limits }
  for (let attempt = 0; ; attempt++) {
    try {
      return await runProgram(program, signal)
    } catch (cause) {
      const isBusy = isErrno(cause, "ETXTBSY")
      const waitMs = waitsMs[attempt]
      if (!isBusy || waitMs === undefined) {
        throw new CniError(isBusy ? Code.TryAgainLater : Code.Io, `Cannot start plugin "${file}"`, { cause })
      }
      await pause(waitMs, signal)
    }
  }
}

class FirstBytes {
  #bytes = new Uint8Array()
  readonly #limit: number

  constructor(limit: number) {
    this.#limit = limit
  }

  get bytes(): Uint8Array {
    return this.#bytes
  }

  add(chunk: Uint8Array): void {
    const part = chunk.subarray(0, this.#limit - this.#bytes.length)
    if (part.length === 0) return
    const all = new Uint8Array(this.#bytes.length + part.length)
    all.set(this.#bytes)
    all.set(part, this.#bytes.length)
    this.#bytes = all
  }
}
