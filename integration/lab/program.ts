import { constants } from "node:os"
import { scaleTimeout } from "./wait-for.ts"

/** The output of a program. `exitCode` is 128 + the signal's number after a signal, as in shells. */
export interface Output {
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number
  /** Wall time from start to end of the process, in milliseconds. */
  readonly durationMs: number
  /** Processor time in milliseconds, user and system, children included. Other load does not change it. */
  readonly cpuMs: number
}

/** The options of a program. */
export interface ProgramOptions {
  /** The complete environment of the process, by default `programEnv`. */
  readonly env?: Readonly<Record<string, string>>
  /** The content of stdin, by default empty. */
  readonly input?: string | Uint8Array
  /** The timeout after which the process is killed and the call throws, by default ten minutes. */
  readonly timeoutMs?: number
}

/** The environment of the system programs that tests use: Debian's directories, and messages in English. */
export const programEnv: Readonly<Record<string, string>> = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LC_ALL: "C",
}

/** The error of a program with another exit code than 0. `message` contains the command line and the output. */
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
 * Runs a program until it exits with any exit code, without a shell. Throws if it cannot be started (`ENOENT`) or
 * exceeds its timeout.
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

/** Runs a program that must succeed. Throws `ProgramError` for another exit code than 0. */
export async function mustRun(command: readonly string[], options: ProgramOptions = {}): Promise<Output> {
  const output = await runProgram(command, options)
  if (output.exitCode !== 0) throw new ProgramError(command, output)
  return output
}

/**
 * Starts a program that outlives its caller: in its own session, not a child of this process, and with closed streams.
 * A test runner kills the children of a test that exceeds its time limit, but not this program.
 */
export async function startDaemon(command: readonly string[]): Promise<void> {
  const program = Bun.spawn(["setsid", "--fork", ...command], {
    env: { ...programEnv },
    stdio: ["ignore", "ignore", "ignore"],
  })
  const exitCode = await program.exited
  if (exitCode !== 0) throw new Error(`Cannot start "${command.join(" ")}": setsid ended with ${exitCode}`)
}
