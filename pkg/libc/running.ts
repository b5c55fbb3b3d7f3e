import { engine, monotonicMs, type ProgramEnd } from "../engine/mod.ts"
import { Child } from "./child.ts"
import { duplicate, type Fd, FileDescriptor, Open, Poll } from "./descriptor.ts"
import { check, isErrno } from "./errno.ts"
import { Input, inputOf, NO_FD, Output, openPipe, type Pipe } from "./pipes.ts"
import type { PollRequest } from "./service.ts"

/** The program that `spawn` runs, and its limits. */
export interface Spawn {
  /** The absolute path of the program's file. */
  readonly path: string
  /** argv[0]; the path by default. */
  readonly name?: string
  /** The arguments, without the program's name. */
  readonly args?: readonly string[]
  /** All variables of the program's environment. Nothing is inherited. */
  readonly env: Readonly<Record<string, string>>
  /** The working directory; this process's by default. */
  readonly cwd?: string
  /** The bytes for the program's stdin; empty by default. */
  readonly stdin?: Uint8Array
  /** The time after which the program is killed; no limit by default. */
  readonly timeoutMs?: number
  /** The maximum number of bytes in each output stream. A program that writes more is killed. */
  readonly outputLimit: number
}

/** Options of a program that runs in the background. */
export interface Program extends Omit<Spawn, "stdin"> {
  /** The bytes for the program's stdin, or "inherit" for this process's stdin. */
  readonly stdin?: Uint8Array | "inherit"
  /** Whether the program gets its own session, setsid(2), and is killed together with its descendants. */
  readonly ownSession?: boolean
  /** The time to wait after the program's end for descendants that hold stdout or stderr; no limit by default. */
  readonly drainMs?: number
  /** Receives each chunk of stdout on arrival. With this function, stdout is not kept and has no limit. */
  readonly onStdout?: (chunk: Uint8Array) => void
  readonly onStderr?: (chunk: Uint8Array) => void
}

/** The exit status and the output of a program that has ended. */
export type Spawned = Omit<ProgramEnd, "startError" | "stopped">

export function execveTexts({ path, name, args = [], env }: Program): { argv: string[]; environment: string[] } {
  return { argv: [name ?? path, ...args], environment: Object.entries(env).map(([key, value]) => `${key}=${value}`) }
}

/** A running program. Wait for `requests`, then call `serve` with their events. Disposal kills the program. */
export class Running implements Disposable {
  readonly #resources: DisposableStack
  readonly #child: Child
  readonly #input: Input
  readonly #output: readonly [Output, Output]
  readonly #deadline: number
  readonly #drainMs: number
  #drained = Number.POSITIVE_INFINITY
  #isStopped = false
  #timedOut = false

  /** Starts a program. Throws `SyscallError` if it cannot be started. */
  constructor(program: Program) {
    const { path, cwd = null, ownSession = false, outputLimit, timeoutMs, drainMs } = program
    using made = new DisposableStack()
    const stdin = made.use(openInput(program.stdin))
    const [stdout, stderr] = [made.use(openPipe()), made.use(openPipe())]
    const { argv, environment } = execveTexts(program)
    const descriptors = new Int32Array([stdin.reading.fd, stdout.writing.fd, stderr.writing.fd])
    const pid = check("execve", { path }, () =>
      engine.startProcess(path, argv, environment, cwd, descriptors, ownSession ? 1 : 0),
    )
    for (const end of [stdin.reading, stdout.writing, stderr.writing]) end[Symbol.dispose]()
    this.#child = made.use(new Child(pid, ownSession))
    this.#input = new Input(stdin.writing, program.stdin === "inherit" ? undefined : program.stdin)
    this.#output = [
      new Output(stdout.reading, outputLimit, program.onStdout),
      new Output(stderr.reading, outputLimit, program.onStderr),
    ]
    this.#deadline = timeoutMs === undefined ? Number.POSITIVE_INFINITY : monotonicMs() + timeoutMs
    this.#drainMs = drainMs ?? Number.POSITIVE_INFINITY
    this.#resources = made.move()
  }

  get pid(): number {
    return this.#child.pid
  }

  /** The descriptors to wait for, at most `leftMs` and until `isOver`. Pass the result of the wait to `serve`. */
  get requests(): readonly PollRequest[] {
    const events = Poll.In
    const reading = this.#output.map(({ fd }) => ({ fd: this.#isStopped ? NO_FD : fd, events }))
    return [{ fd: this.#input.fd, events: Poll.Out }, ...reading, { fd: this.#child.fd, events }]
  }

  /** The time left in milliseconds; undefined if there is no limit. */
  get leftMs(): number | undefined {
    const end = this.#isStopped ? Number.POSITIVE_INFINITY : Math.min(this.#deadline, this.#drained)
    return end === Number.POSITIVE_INFINITY ? undefined : Math.max(0, Math.ceil(end - monotonicMs()))
  }

  get isOver(): boolean {
    if (!this.#child.hasEnded) return false
    return this.#isStopped || this.#output.every((stream) => !stream.isOpen) || monotonicMs() >= this.#drained
  }

  serve(ready: ArrayLike<number>): void {
    const now = monotonicMs()
    if (ready[0]) this.#input.write()
    for (const [at, stream] of this.#output.entries()) if (ready[1 + at]) stream.read()
    if (ready[3]) {
      this.#child.reap()
      this.#drained = now + this.#drainMs
    }
    if (this.isOver || this.#isStopped) return
    // Checked only after the last read: a program that writes without pause is always ready.
    this.#timedOut = now >= this.#deadline
    if (this.#timedOut || this.#output.some((stream) => stream.isTooMuch)) this.stop()
  }

  /** Kills the program. */
  stop(): void {
    if (!this.#isStopped) this.#child.kill()
    this.#isStopped = true
  }

  /** Returns the exit status and the output; only once `isOver`. */
  end(): Spawned {
    const [stdout, stderr] = this.#output
    const wroteTooMuch = this.#output.some((stream) => stream.isTooMuch)
    return { ...this.#child.end, timedOut: this.#timedOut, wroteTooMuch, stdout: stdout.bytes, stderr: stderr.bytes }
  }

  [Symbol.dispose](): void {
    this.#resources[Symbol.dispose]()
  }
}

/**
 * Opens the stdin of a program: this process's stdin, a pipe for the given bytes, or /dev/null. If /dev/null is
 * missing, as in an empty root directory, the stdin is a pipe without data.
 */
function openInput(stdin: Program["stdin"]): Pipe {
  if (stdin === "inherit") return inputOf(new FileDescriptor(duplicate(0 as Fd)))
  if (stdin !== undefined) return openPipe()
  try {
    return inputOf(FileDescriptor.open("/dev/null", Open.ReadOnly))
  } catch (error) {
    if (!isErrno(error, "ENOENT")) throw error
    return openPipe()
  }
}
