import { constants } from "node:os"
import { execa } from "execa"
import { patient } from "./wait-for.ts"

/** What a program did. `exitCode` is 128 + the signal's number when a signal ended it, as shells have it. */
export interface Output {
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number
  /** Wall time from start to end of the process, in milliseconds. */
  readonly durationMs: number
}

/** How to run a program. */
export interface ProgramOptions {
  /** The whole environment of the process; by default `programEnv`. */
  readonly env?: Readonly<Record<string, string>>
  /** What it reads on stdin; by default nothing. */
  readonly input?: string | Uint8Array
  /** After this time the process is killed and the call throws; by default 30 seconds. */
  readonly timeoutMs?: number
}

/** The environment of the programs that tests judge with: Debian's directories, and messages in English. */
export const programEnv: Readonly<Record<string, string>> = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LC_ALL: "C",
}

/** A program that did not end with exit code 0; `message` holds the command line and what it wrote. */
export class ProgramError extends Error {
  override readonly name = "ProgramError"
  readonly output: Output

  constructor(command: readonly string[], output: Output) {
    const said = [output.stderr, output.stdout].map((text) => text.trim()).filter((text) => text !== "")
    super([`"${command.join(" ")}" ended with exit code ${output.exitCode}`, ...said].join("\n"))
    this.output = output
  }
}

/**
 * Runs a program to its end, whatever its exit code; no shell in between.
 * Throws when it cannot be started (`ENOENT`) or does not end in time.
 */
export async function runProgram(command: readonly string[], options: ProgramOptions = {}): Promise<Output> {
  const [file = "", ...args] = command
  const timeout = patient(options.timeoutMs ?? 30_000)
  const result = await execa(file, args, {
    env: { ...(options.env ?? programEnv) },
    extendEnv: false,
    ...(options.input === undefined ? { stdin: "ignore" as const } : { input: options.input }),
    stripFinalNewline: false,
    reject: false,
    timeout,
    killSignal: "SIGKILL",
    // What ends with the test process is the business of the keeper, see keeper.ts.
    cleanup: false,
  })
  if (result.timedOut) throw new Error(`"${command.join(" ")}" did not end within ${timeout} ms`)
  const exitCode = result.exitCode ?? (result.signal === undefined ? undefined : 128 + constants.signals[result.signal])
  if (exitCode === undefined) throw new Error(`Cannot run "${command.join(" ")}"`, { cause: result.cause })
  return { stdout: result.stdout, stderr: result.stderr, exitCode, durationMs: result.durationMs }
}

/** Runs a program that has to succeed. Throws `ProgramError` when its exit code is not 0. */
export async function mustRun(command: readonly string[], options: ProgramOptions = {}): Promise<Output> {
  const output = await runProgram(command, options)
  if (output.exitCode !== 0) throw new ProgramError(command, output)
  return output
}

/**
 * Starts a program that outlives its caller: in a session of its own, child of nobody here, its streams closed. A test
 * runner kills the children of a test that ran into its time limit; it cannot find this one.
 */
export async function startDaemon(command: readonly string[]): Promise<void> {
  await execa("setsid", ["--fork", ...command], { env: { ...programEnv }, extendEnv: false, stdio: "ignore" })
}
