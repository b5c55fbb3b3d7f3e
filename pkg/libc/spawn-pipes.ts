import { engine, monotonicMs, type ProgramEnd } from "../engine/mod.ts"
import { type Fd, FileDescriptor, Open, Poll } from "./descriptor.ts"
import { check, EINTR, SyscallError } from "./errno.ts"
import { pollAll } from "./service.ts"

const EAGAIN = 11
const EPIPE = 32
const F_SETFL = 4
/** poll(2) looks past it. */
const NO_FD = -1 as Fd
const SIGKILL = 9
/** <bits/signum-generic.h>, those that end programs. */
const signalNames: Readonly<Record<number, string>> = {
  1: "SIGHUP",
  2: "SIGINT",
  3: "SIGQUIT",
  4: "SIGILL",
  6: "SIGABRT",
  7: "SIGBUS",
  8: "SIGFPE",
  9: "SIGKILL",
  11: "SIGSEGV",
  13: "SIGPIPE",
  14: "SIGALRM",
  15: "SIGTERM",
  24: "SIGXCPU",
  25: "SIGXFSZ",
  31: "SIGSYS",
}

/** A program to run. */
export interface Spawn {
  /** Absolute. */
  readonly path: string
  /** The name that it is called by; by default the path. */
  readonly name?: string
  /** The arguments, without the program's name. */
  readonly args?: readonly string[]
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>
  /** The working directory; by default ours. */
  readonly cwd?: string
  /** The bytes for the program's stdin; empty by default. */
  readonly stdin?: Uint8Array
  /** After this long the program is killed; by default never. */
  readonly timeoutMs?: number
  /** With more output than this on either stream, in bytes, the program is killed. */
  readonly outputLimit: number
}

/** The end of a program, with its output until then. */
export type Spawned = Omit<ProgramEnd, "startError">

/** Runs a program as `spawn` does, on a back end that starts processes: by pipes, and a descriptor of the process. */
export function runWithPipes(program: Spawn, argv: readonly string[], environment: readonly string[]): Spawned {
  using stdin = program.stdin === undefined ? noInput() : openPipe()
  using stdout = openPipe()
  using stderr = openPipe()
  const descriptors = new Int32Array([stdin.reading.fd, stdout.writing.fd, stderr.writing.fd])
  const pid = check("execve", JSON.stringify(program.path), () =>
    engine.startProcess(program.path, argv, environment, program.cwd ?? null, descriptors, 0),
  )
  for (const end of [stdin.reading, stdout.writing, stderr.writing]) end[Symbol.dispose]()
  using child = new Child(pid)
  const output = [
    new Output(stdout.reading, program.outputLimit),
    new Output(stderr.reading, program.outputLimit),
  ] as const
  const input = new Input(stdin.writing, program.stdin)
  const deadline = program.timeoutMs === undefined ? undefined : monotonicMs() + program.timeoutMs
  let timedOut = false
  while (!child.hasEnded || output.some((stream) => stream.isOpen)) {
    const leftMs = deadline === undefined ? undefined : Math.max(0, Math.ceil(deadline - monotonicMs()))
    const reading = [output[0], output[1], child].map(({ fd }) => ({ fd, events: Poll.In }))
    const ready = pollAll([{ fd: input.fd, events: Poll.Out }, ...reading], leftMs)
    timedOut = leftMs === 0 // after a last look at what is there: a program that always writes is always ready
    if (ready[0]) input.write()
    if (ready[1]) output[0].read()
    if (ready[2]) output[1].read()
    if (ready[3]) child.reap()
    if (timedOut || output.some((stream) => stream.isTooMuch)) break
  }
  timedOut &&= !child.hasEnded || output.some((stream) => stream.isOpen)
  const { exitCode, signal } = child.end()
  const [wroteTooMuch, [out, err]] = [output.some((stream) => stream.isTooMuch), output]
  return { exitCode, signal, timedOut, wroteTooMuch, stdout: out.bytes, stderr: err.bytes }
}

/** Both ends of a pipe. */
interface Pipe extends Disposable {
  readonly reading: FileDescriptor
  readonly writing: FileDescriptor | undefined
}

function openPipe(): Pipe & { readonly writing: FileDescriptor } {
  const pair = new Int32Array(2)
  check("pipe2", "", () => engine.pipe2(pair, Open.CloseOnExec))
  const [reading, writing] = [new FileDescriptor(pair[0] as Fd), new FileDescriptor(pair[1] as Fd)]
  return {
    reading,
    writing,
    [Symbol.dispose]() {
      reading[Symbol.dispose]()
      writing[Symbol.dispose]()
    },
  }
}

function noInput(): Pipe {
  const reading = FileDescriptor.open("/dev/null", Open.ReadOnly)
  return { reading, writing: undefined, [Symbol.dispose]: () => reading[Symbol.dispose]() }
}

/** Writes to the program's stdin as many bytes as it takes, without waiting. */
class Input {
  readonly #pipe: FileDescriptor | undefined
  #rest: Uint8Array

  constructor(pipe: FileDescriptor | undefined, bytes: Uint8Array = new Uint8Array()) {
    this.#pipe = pipe
    this.#rest = bytes
    if (pipe) check("fcntl", "O_NONBLOCK", () => engine.fcntl(pipe.fd, F_SETFL, Open.NonBlocking))
    if (bytes.length === 0) pipe?.[Symbol.dispose]()
  }

  /** `NO_FD` when there is nothing more to write. */
  get fd(): Fd {
    return (this.#rest.length > 0 && this.#pipe?.fd) || NO_FD
  }

  /** A program that reads no more is no error of ours; one that gets a part of its input must not take it for the whole. */
  write(): void {
    const written = engine.write(this.fd, this.#rest)
    if (written === -EAGAIN || written === -EINTR) return
    if (written < 0 && written !== -EPIPE) throw new SyscallError("write", -written, "the input of a program")
    this.#rest = this.#rest.subarray(written < 0 ? this.#rest.length : written)
    if (this.#rest.length === 0) this.#pipe?.[Symbol.dispose]()
  }
}

/** One stream of the program's output, kept up to a limit. */
class Output {
  readonly #pipe: FileDescriptor
  readonly #limit: number
  #buffer = new Uint8Array(4096)
  #length = 0
  isOpen = true

  constructor(pipe: FileDescriptor, limit: number) {
    this.#pipe = pipe
    this.#limit = limit
  }

  /** `NO_FD` when it is closed. */
  get fd(): Fd {
    return this.isOpen ? this.#pipe.fd : NO_FD
  }

  get isTooMuch(): boolean {
    return this.#length > this.#limit
  }

  get bytes(): Uint8Array {
    return this.#buffer.subarray(0, Math.min(this.#length, this.#limit))
  }

  read(): void {
    if (this.#length === this.#buffer.length) {
      const larger = new Uint8Array(this.#buffer.length * 4)
      larger.set(this.#buffer)
      this.#buffer = larger
    }
    const into = this.#buffer.subarray(this.#length, this.#limit + 1)
    const count = check("read", "the output of a program", () => engine.read(this.#pipe.fd, into))
    this.#length += count
    this.isOpen = count > 0
  }
}

/** The process: known by its descriptor, which becomes readable when it has ended. Killed at the latest by its disposal. */
class Child implements Disposable {
  readonly #pid: number
  readonly #descriptor: FileDescriptor
  readonly #status = new Int32Array(1)
  hasEnded = false

  constructor(pid: number) {
    this.#pid = pid
    try {
      this.#descriptor = new FileDescriptor(check("pidfd_open", "", () => engine.pidfd_open(pid, 0)) as Fd)
    } catch (error) {
      engine.kill(pid, SIGKILL)
      this.reap()
      throw error
    }
  }

  get fd(): Fd {
    return this.hasEnded ? NO_FD : this.#descriptor.fd
  }

  /** Waits for its end and takes its status. */
  reap(): void {
    check("wait4", "", () => engine.wait4(this.#pid, this.#status, 0))
    this.hasEnded = true
  }

  [Symbol.dispose](): void {
    this.#descriptor[Symbol.dispose]()
    if (this.hasEnded) return
    engine.kill(this.#pid, SIGKILL)
    engine.wait4(this.#pid, this.#status, 0)
  }

  /** Kills it if it still lives, and says how it has ended. */
  end(): { exitCode: number | undefined; signal: string | undefined } {
    if (!this.hasEnded) {
      engine.kill(this.#pid, SIGKILL)
      this.reap()
    }
    const status = this.#status[0] ?? 0 // wait(2): the signal in the lower 7 bits, else the exit code above them
    const signal = status & 0x7f
    if (signal === 0) return { exitCode: (status >> 8) & 0xff, signal: undefined }
    return { exitCode: undefined, signal: signalNames[signal] ?? `signal ${signal}` }
  }
}
