import { engine } from "../engine/mod.ts"
import { type Fd, FileDescriptor } from "./descriptor.ts"
import { check } from "./errno.ts"
import { NO_FD } from "./pipes.ts"

const SIGKILL = 9
/** <bits/signum-generic.h>: the names of the signals that end programs. */
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

/** A child process. Its descriptor becomes readable when the process ends. Disposal kills the process. */
export class Child implements Disposable {
  readonly pid: number
  readonly #ownSession: boolean
  readonly #descriptor: FileDescriptor
  readonly #status = new Int32Array(1)
  hasEnded = false

  constructor(pid: number, ownSession: boolean) {
    this.pid = pid
    this.#ownSession = ownSession
    try {
      this.#descriptor = new FileDescriptor(check("pidfd_open", "", () => engine.pidfd_open(pid, 0)) as Fd)
    } catch (error) {
      this.kill()
      this.reap()
      throw error
    }
  }

  get fd(): Fd {
    return this.hasEnded ? NO_FD : this.#descriptor.fd
  }

  reap(): void {
    check("wait4", "", () => engine.wait4(this.pid, this.#status, 0))
    this.hasEnded = true
  }

  [Symbol.dispose](): void {
    this.#descriptor[Symbol.dispose]()
    if (this.hasEnded) return
    this.kill()
    engine.wait4(this.pid, this.#status, 0)
  }

  /** Kills the process, or with `ownSession` its session. Spares an ended process, whose ID another one may have. */
  kill(): void {
    if (this.hasEnded && !this.#ownSession) return
    engine.kill(this.#ownSession ? -this.pid : this.pid, SIGKILL)
  }

  /** The exit code or the signal; valid once the process has ended. */
  get end(): { exitCode: number | undefined; signal: string | undefined } {
    // wait(2): the lower 7 bits are the signal. If they are 0, bits 8 to 15 are the exit code.
    const status = this.#status[0] ?? 0
    const signal = status & 0x7f
    if (signal === 0) return { exitCode: (status >> 8) & 0xff, signal: undefined }
    return { exitCode: undefined, signal: signalNames[signal] ?? `signal ${signal}` }
  }
}
