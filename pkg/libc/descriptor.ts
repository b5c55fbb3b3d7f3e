import { engine, monotonicMs } from "../engine/mod.ts"
import { check, find } from "./errno.ts"

/** An open file descriptor. */
export type Fd = number & { readonly __brand: "Fd" }

/** Flags of open(2), <asm-generic/fcntl.h>. Flags that differ between architectures are left out. */
export const Open = {
  ReadOnly: 0,
  WriteOnly: 1,
  ReadWrite: 2,
  Create: 0o100,
  Exclusive: 0o200,
  Truncate: 0o1000,
  Append: 0o2000,
  NonBlocking: 0o4000,
  CloseOnExec: 0o2000000,
} as const

/** <linux/fcntl.h> */
const F_DUPFD_CLOEXEC = 1030

/** Flags for every open(2). Without O_NONBLOCK, opening a FIFO would block until another process opens it. */
const ALWAYS = Open.CloseOnExec | Open.NonBlocking

/** Opens a file close-on-exec and without blocking on a FIFO, like open(2). Throws `SyscallError`. */
export function open(path: string, flags: number, mode = 0): Fd {
  return check("open", { path }, () => engine.open(path, flags | ALWAYS, mode)) as Fd
}

/** Opens a file for reading and writing. Returns undefined if it does not exist or is not writable. Never throws. */
export function findFileForWriting(path: string): Fd | undefined {
  const fd = engine.open(path, Open.ReadWrite | ALWAYS, 0)
  return fd < 0 ? undefined : (fd as Fd)
}

/** Closes a descriptor. Errors are ignored, because the caller cannot act on them. */
export function close(fd: Fd): void {
  engine.close(fd)
}

/** Returns another descriptor of the same open file, which is close-on-exec. Throws `SyscallError`. */
export function duplicate(fd: Fd): Fd {
  return check("fcntl", { fd }, () => engine.fcntl(fd, F_DUPFD_CLOEXEC, 0)) as Fd
}

/** A descriptor that is closed when its scope ends. */
export class FileDescriptor implements Disposable {
  readonly #fd: Fd
  #open = true

  constructor(fd: Fd) {
    this.#fd = fd
  }

  static open(path: string, flags: number, mode = 0): FileDescriptor {
    return new FileDescriptor(open(path, flags, mode))
  }

  /** Opens a file for reading. Returns undefined if it does not exist. Throws `SyscallError`. */
  static find(path: string): FileDescriptor | undefined {
    const fd = find("open", { path }, () => engine.open(path, Open.ReadOnly | ALWAYS, 0))
    return fd === undefined ? undefined : new FileDescriptor(fd as Fd)
  }

  get fd(): Fd {
    return this.#fd
  }

  [Symbol.dispose](): void {
    if (this.#open) close(this.#fd)
    this.#open = false
  }
}

/** Calls `prepare` with a resource and returns the resource. If `prepare` throws, the resource is disposed. */
export function prepared<R extends Disposable>(resource: R, prepare: (resource: R) => void): R {
  try {
    prepare(resource)
    return resource
  } catch (error) {
    resource[Symbol.dispose]()
    throw error
  }
}

/** Reads at most `into.length` bytes and returns their number, 0 at the end. Throws `SyscallError`, also `EAGAIN`. */
export function read(fd: Fd, into: Uint8Array): number {
  return check("read", { fd }, () => engine.read(fd, into))
}

/** Writes some of the bytes and returns their number. Throws `SyscallError`, also for `EAGAIN`. */
export function write(fd: Fd, bytes: Uint8Array): number {
  return check("write", { fd }, () => engine.write(fd, bytes))
}

/** Writes all of the bytes. Throws `SyscallError`; some bytes may then have been written. */
export function writeAll(fd: Fd, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) done += write(fd, bytes.subarray(done))
}

/** Calls ioctl(2) for the request `name`, whose argument is a number, or that has none. Throws `SyscallError`. */
export function ioctl(fd: Fd, name: string, request: number, value = 0): number {
  return check("ioctl", name, () => engine.ioctl(fd, request, value))
}

/** Calls ioctl(2) for a request whose argument is a struct ifreq of 40 bytes, <linux/if.h>. Throws `SyscallError`. */
export function ioctlIfreq(fd: Fd, name: string, request: number, ifreq: Uint8Array): void {
  check("ioctl", name, () => engine.ioctlIfreq(fd, request, ifreq))
}

export const Poll = { In: 1, Out: 4 } as const

/** Waits until the descriptor is ready for one of `events`, or broken. Returns false after `timeoutMs`. */
export function poll(fd: Fd, events: number, timeoutMs: number): boolean {
  const request = new Int32Array([fd, events]) // struct pollfd { int fd; short events, revents; }
  const deadline = monotonicMs() + timeoutMs
  const leftMs = () => Math.max(0, Math.ceil(deadline - monotonicMs()))
  return check("poll", { fd }, () => engine.poll(request, leftMs())) > 0
}
