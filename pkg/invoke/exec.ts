import { decodeUtf8 } from "../engine/mod.ts"
import { isErrno, sleep, spawn } from "../libc/mod.ts"
import { CniError, Code, messageOf } from "../types/mod.ts"
import { pluginError } from "./printed.ts"

/** The input of one run of a plugin's executable. */
export interface Execution {
  /** The absolute path of the executable. */
  path: string
  /** The arguments after the path. The specification has none. */
  args?: readonly string[]
  /** The whole environment of the plugin. */
  env: Environment
  /** The network configuration. */
  stdin: Uint8Array
  /** The time after which the plugin is killed. If absent, it is never killed. */
  timeoutMs?: number
  /** Receives the plugin's stderr, without its last newline, after the plugin has ended. */
  log?: (text: string) => void
}

/** Environment variables; an `undefined` variable is absent. */
export type Environment = Readonly<Record<string, string | undefined>>

/** The limit in bytes for a plugin's output and input, above any expected size. A plugin that prints more is killed. */
const outputLimit = 16 << 20

/** The waits between six attempts to start a file that is being written: five seconds in all. */
export const busyWaitsMs = [50, 150, 500, 1300, 3000] as const

/**
 * Runs a plugin and returns its stdout, like `PATH < config`. It is synchronous and uses no shell.
 *
 * Throws the error that the plugin printed. If the plugin printed none, could not be started, or ran out of time,
 * throws code 0 (`pluginError`). Retries a file that is being written ("text file busy") for five seconds, then throws
 * code 11.
 */
export function execPlugin(execution: Execution, waitsMs: readonly number[] = busyWaitsMs): Uint8Array {
  const { stdout, stderr, cause, isBusy } = run(execution, waitsMs)
  if (stderr !== "") execution.log?.(stderr.replace(/\n$/, ""))
  if (cause === undefined) return stdout
  const error = pluginError({ stdout: decodeUtf8(stdout), stderr, cause })
  throw isBusy ? new CniError(Code.TryAgainLater, error.message) : error
}

/** The outcome of a run. If `cause` is absent, the exit status is 0. */
interface Ended {
  stdout: Uint8Array
  stderr: string
  cause?: string
  /** Whether the plugin was never started, because its file was being written all the time. */
  isBusy?: boolean
}

function run(execution: Execution, waitsMs: readonly number[]): Ended {
  for (let attempt = 0; ; attempt++) {
    try {
      return runOnce(execution)
    } catch (error) {
      const waitMs = waitsMs[attempt]
      const isBusy = isErrno(error, "ETXTBSY")
      if (!isBusy || waitMs === undefined) {
        return { stdout: new Uint8Array(), stderr: "", cause: startFailure(execution.path, error), isBusy }
      }
      sleep(waitMs)
    }
  }
}

function runOnce({ path, args = [], env, stdin, timeoutMs }: Execution): Ended {
  const isSet = (variable: [string, string | undefined]): variable is [string, string] => variable[1] !== undefined
  const limits = { outputLimit, ...(timeoutMs === undefined ? {} : { timeoutMs }) }
  const { exitCode, signal, timedOut, wroteTooMuch, stdout, stderr } = spawn({
    path,
    args,
    env: Object.fromEntries(Object.entries(env).filter(isSet)),
    stdin,
    ...limits,
  })
  const output = { stdout, stderr: decodeUtf8(stderr) }
  if (wroteTooMuch) return { ...output, cause: `signal: killed after ${outputLimit} bytes of output` }
  if (exitCode === 0) return output // even when a descendant kept the pipes open until the timeout
  if (timedOut) return { ...output, cause: `signal: killed after ${timeoutMs} ms` }
  if (signal !== undefined) return { ...output, cause: `signal: ${signalText(signal)}` }
  return { ...output, cause: `exit status ${exitCode}` }
}

/** Returns why a file could not be started, in Go's words, which callers compare: "fork/exec PATH: …". */
function startFailure(path: string, error: unknown): string {
  const reason = isErrno(error) ? startReasons[error.errno] : undefined
  return `fork/exec ${path}: ${reason ?? messageOf(error)}`
}

const startReasons: Readonly<Record<string, string>> = {
  EACCES: "permission denied",
  ENOENT: "no such file or directory",
  ENOEXEC: "exec format error",
  ETXTBSY: "text file busy",
}

function signalText(signal: string): string {
  return signal === "SIGKILL" ? "killed" : signal === "SIGTERM" ? "terminated" : signal
}
