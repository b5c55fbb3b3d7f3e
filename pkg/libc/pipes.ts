import { engine } from "../engine/mod.ts"
import { type Fd, FileDescriptor, Open } from "./descriptor.ts"
import { check, EINTR, SyscallError } from "./errno.ts"

const EAGAIN = 11
const EPIPE = 32
const F_SETFL = 4
/** A descriptor that poll(2) ignores. */
export const NO_FD = -1 as Fd

export interface Pipe extends Disposable {
  readonly reading: FileDescriptor
  readonly writing: FileDescriptor | undefined
}

export function openPipe(): Pipe & { readonly writing: FileDescriptor } {
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

/** Returns the stdin of a program that gets no input from this process. */
export function inputOf(reading: FileDescriptor): Pipe {
  return { reading, writing: undefined, [Symbol.dispose]: () => reading[Symbol.dispose]() }
}

/** The input of a program. `write` writes as many bytes as the program's stdin accepts, without waiting. */
export class Input {
  readonly #pipe: FileDescriptor | undefined
  #rest: Uint8Array

  constructor(pipe: FileDescriptor | undefined, bytes: Uint8Array = new Uint8Array()) {
    this.#pipe = pipe
    this.#rest = bytes
    if (pipe) check("fcntl", "O_NONBLOCK", () => engine.fcntl(pipe.fd, F_SETFL, Open.NonBlocking))
    if (bytes.length === 0) pipe?.[Symbol.dispose]()
  }

  /** The descriptor to write to; `NO_FD` if nothing is left to write. */
  get fd(): Fd {
    return (this.#rest.length > 0 && this.#pipe?.fd) || NO_FD
  }

  /**
   * Writes more of the input. A program that no longer reads (`EPIPE`) is not an error. After any other error it throws
   * `SyscallError`, so that the program does not mistake a part of its input for the whole.
   */
  write(): void {
    const written = engine.write(this.fd, this.#rest)
    if (written === -EAGAIN || written === -EINTR) return
    if (written < 0 && written !== -EPIPE) throw new SyscallError("write", -written, "the input of a program")
    this.#rest = this.#rest.subarray(written < 0 ? this.#rest.length : written)
    if (this.#rest.length === 0) this.#pipe?.[Symbol.dispose]()
  }
}

/** One output stream of a program, whose bytes are kept up to a limit, or passed on as they arrive. */
export class Output {
  readonly #pipe: FileDescriptor
  readonly #limit: number
  readonly #pass: ((chunk: Uint8Array) => void) | undefined
  #buffer = new Uint8Array(4096)
  #length = 0
  isOpen = true

  constructor(pipe: FileDescriptor, limit: number, pass?: (chunk: Uint8Array) => void) {
    this.#pipe = pipe
    this.#limit = pass ? Number.POSITIVE_INFINITY : limit
    this.#pass = pass
  }

  /** The descriptor to read from; `NO_FD` once the stream has ended. */
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
    this.isOpen = count > 0
    if (!this.#pass) this.#length += count
    else if (count > 0) this.#pass(into.slice(0, count))
  }
}
