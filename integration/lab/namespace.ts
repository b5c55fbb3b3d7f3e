import { mustRun, type Output, type ProgramOptions, runProgram } from "./program.ts"

/** A named network namespace, and how programs get into it. */
export abstract class Namespace {
  /** The name that `ip netns list` shows. */
  readonly name: string
  /** The file that stands for it, which is what `CNI_NETNS` holds. */
  readonly path: string

  constructor(name: string) {
    this.name = name
    this.path = `/run/netns/${name}`
  }

  /** The command line that runs `command` inside the namespace. Every program on it replaces itself with the next. */
  abstract commandLine(command: readonly string[]): string[]

  /** Runs a program inside. Throws `ProgramError` when its exit code is not 0. */
  exec(file: string, args: readonly string[] = [], options: ProgramOptions = {}): Promise<Output> {
    return mustRun(this.commandLine([file, ...args]), options)
  }

  /** Runs a program inside, whatever its exit code. */
  tryExec(file: string, args: readonly string[] = [], options: ProgramOptions = {}): Promise<Output> {
    return runProgram(this.commandLine([file, ...args]), options)
  }

  /** What a program with JSON output says, for example `json<Link[]>("ip", ["-j", "link"])`; no output is `[]`. */
  async json<T>(file: string, args: readonly string[]): Promise<T> {
    const { stdout } = await this.exec(file, args)
    return JSON.parse(stdout.trim() || "[]") as T
  }
}
