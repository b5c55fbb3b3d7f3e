import { constants } from "node:os"
import { patient } from "./wait-for.ts"

/** What a program did. `exitCode` is 128 + the signal's number when a signal ended it, as shells have it. */
export interface Output {
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number
  /** Wall time from start to end of the process, in milliseconds. */
  readonly durationMs: number
  /** Time on the processor, its own and the kernel's for it, children included, in milliseconds: other work does not stretch it. */
  readonly cpuMs: number
}

/** How to run a program. */
export interface ProgramOptions {
  /** The whole environment of the process; by default `programEnv`. */
  readonly env?: Readonly<Record<string, string>>
  /** What it reads on stdin; by default nothing. */
  readonly input?: string | Uint8Array
  /** After this time the process is killed and the call throws; by default ten minutes. */
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
 * Runs a program to its end, with any exit code; no shell in between.
 * Throws when it cannot be started (`ENOENT`) or does not end in time.
 */
export async function runProgram(command: readonly string[], options: ProgramOptions = {}): Promise<Output> {
  const timeout = patient(options.timeoutMs ?? 600_000)
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

/** Runs a program that has to succeed. Throws `ProgramError` when its exit code is not 0. */
export async function mustRun(command: readonly string[], options: ProgramOptions = {}): Promise<Output> {
  const output = await runProgram(command, options)
  if (output.exitCode !== 0) throw new ProgramError(command, output)
  return output
}

/**
 * Starts a program that outlives its caller: in a session of its own, no child of this process, its streams closed. A test
 * runner kills the children of a test that ran into its time limit; it cannot find this one.
 */
export async function startDaemon(command: readonly string[]): Promise<void> {
  const program = Bun.spawn(["setsid", "--fork", ...command], {
    env: { ...programEnv },
    stdio: ["ignore", "ignore", "ignore"],
  })
  const exitCode = await program.exited
  if (exitCode !== 0) throw new Error(`Cannot start "${command.join(" ")}": setsid ended with ${exitCode}`)
}
