import { constants } from "node:os"
import { scaleTimeout } from "./wait-for.ts"

/**
 * The output of a program. If a signal killed the program, `exitCode` is 128 plus the signal's number, as in shells.
 */
export interface Output {
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number
  /** The wall time from start to end of the process, in milliseconds. */
  readonly durationMs: number
  /** User and system CPU time of the process and its children, in milliseconds, independent of the machine's load. */
  readonly cpuMs: number
}

export interface ProgramOptions {
  /** The complete environment of the process, by default `programEnv`. */
  readonly env?: Readonly<Record<string, string>>
  /** The content of stdin, by default empty. */
  readonly input?: string | Uint8Array
  /** The time in milliseconds after which the process is killed and the call throws; by default ten minutes. */
  readonly timeoutMs?: number
}

/** The environment of the system programs that tests run: Debian's directories, and messages in English. */
export const programEnv: Readonly<Record<string, string>> = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LC_ALL: "C",
}

/** The error for a program whose exit code is not 0. `message` contains the command line and the output. */
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
 * Runs a program without a shell and returns its output, also after a failure. Throws if the program cannot be
 * started (`ENOENT`) or runs longer than `timeoutMs`.
 */
export async function runProgram(command: readonly string[], options: ProgramOptions = {}): Promise<Output> {
  const timeout = scaleTimeout(options.timeoutMs ?? 600_000)
  const began = performance.now()
  const { input } = options
  const program = Bun.spawn([...command], {
    env: { ...(options.env ?? programEnv) },
    stdin: input === undefined ? "ignore" : typeof input === "string" ? Buffer.from(input) : input,
    stdout: "pipe",
    stderr: "pipe",
    timeout,
    killSignal: "SIGKILL",
  })
  const outputs = Promise.all([program.stdout.text(), program.stderr.text()])
  await program.exited
  const durationMs = performance.now() - began
  if (program.signalCode === "SIGKILL" && durationMs >= timeout) {
    throw new Error(`"${command.join(" ")}" did not end within ${timeout} ms`)
  }
  const [stdout, stderr] = await outputs
  const exitCode = program.exitCode ?? 128 + constants.signals[program.signalCode as NodeJS.Signals]
  const cpuMs = Number(program.resourceUsage()?.cpuTime.total ?? 0) / 1000
  return { stdout, stderr, exitCode, durationMs, cpuMs }
}

/** Runs a program and returns its output. Throws `ProgramError` if the exit code is not 0. */
export async function mustRun(command: readonly string[], options: ProgramOptions = {}): Promise<Output> {
  const output = await runProgram(command, options)
  if (output.exitCode !== 0) throw new ProgramError(command, output)
  return output
}

/**
 * Starts a program that outlives its caller: the program has its own session, is not a child of this process, and has
 * closed streams. The test runner, which kills the children of a test after the time limit, does not kill it.
 */
export async function startDaemon(command: readonly string[]): Promise<void> {
  const program = Bun.spawn(["setsid", "--fork", ...command], {
    env: { ...programEnv },
    stdio: ["ignore", "ignore", "ignore"],
  })
  const exitCode = await program.exited
  if (exitCode !== 0) throw new Error(`Cannot start "${command.join(" ")}": setsid ended with ${exitCode}`)
}
