/**
 * The interface to the engine. It has everything that a plugin's process needs from outside: system calls, programs,
 * text, the clock, the process itself. There are three back ends, the native host (`host/door.c`), Bun (`bun.ts`), and
 * Node (`node.ts`), and one contract, `contract.fixture.ts`. Node's back end is for the npm package `libcni`: it
 * implements the calls that a runtime's library needs, and returns `ENOSYS` for all others.
 *
 * A system call returns the kernel's value: a number, or the negative number of an error (<asm-generic/errno.h>). Wrong
 * arguments never reach the kernel. A value of the wrong type or a detached array throws `TypeError`. An integer out of
 * range, or an array too short for a struct, throws `RangeError`. For a text that contains NUL, the call returns
 * `EINVAL`. Arrays named `into` and `bytes` are read or written to their whole length.
 */
export interface Engine {
  open(path: string, flags: number, mode: number): number
  close(fd: number): number
  read(fd: number, into: TypedArray): number
  write(fd: number, bytes: TypedArray): number
  pread(fd: number, into: TypedArray, offset: number): number
  pwrite(fd: number, bytes: TypedArray, offset: number): number
  ftruncate(fd: number, length: number): number
  fsync(fd: number): number
  flock(fd: number, operation: number): number
  fcntl(fd: number, command: number, value: number): number
  /** ioctl(2) for a request whose argument is a number, or that has none. */
  ioctl(fd: number, request: number, value: number): number
  /** ioctl(2) for a request whose argument is a struct ifreq of 40 bytes, <linux/if.h>. */
  ioctlIfreq(fd: number, request: number, ifreq: TypedArray): number
  /** ioctl(2) for a request whose argument is a struct winsize of 8 bytes, <asm-generic/termios.h>. */
  ioctlWinsize(fd: number, request: number, winsize: TypedArray): number
  fsetxattr(fd: number, name: string, value: TypedArray, flags: number): number
  /** statx(2) into a struct of 256 bytes. */
  statx(directory: number, path: string, flags: number, mask: number, into: TypedArray): number
  /** statfs(2) into a struct of 120 bytes. */
  statfs(path: string, into: TypedArray): number
  getdents64(fd: number, into: TypedArray): number
  /** link(2), by linkat(2): filters of system calls see the names that end in "at". */
  linkat(from: string, to: string): number
  readlinkat(path: string, into: TypedArray): number
  mkdirat(path: string, mode: number): number
  /** utimensat(2) with two struct timespec: access, then modification. */
  utimensat(path: string, times: TypedArray, flags: number): number
  rename(from: string, to: string): number
  unlink(path: string): number
  rmdir(path: string): number
  /** chmod(2) */
  fchmodat(path: string, mode: number): number
  lgetxattr(path: string, name: string, into: TypedArray): number

  socket(family: number, type: number, protocol: number): number
  bind(fd: number, address: TypedArray): number
  setsockopt(fd: number, level: number, option: number, value: TypedArray): number
  sendto(fd: number, bytes: TypedArray, flags: number): number
  /** recvfrom(2). Writes the first 12 bytes of the sender's address, a whole struct sockaddr_nl, to `from`. */
  recvfrom(fd: number, into: TypedArray, flags: number, from: TypedArray): number
  socketpair(family: number, type: number, protocol: number, pair: TypedArray): number
  /** sendmsg(2) of at most eight descriptors by SCM_RIGHTS, without data. */
  sendDescriptors(fd: number, descriptors: Int32Array): number
  setns(fd: number, type: number): number
  /** unshare(2) of this thread. */
  unshare(flags: number): number
  listen(fd: number, backlog: number): number
  /** accept4(2), without returning the address of the peer. */
  accept4(fd: number, flags: number): number
  connect(fd: number, address: TypedArray): number
  /** getsockopt(2) for an option of 4 bytes. */
  getsockopt(fd: number, level: number, option: number, into: TypedArray): number
  /** SO_ATTACH_FILTER with at most 4096 instructions of 8 bytes, struct sock_filter. */
  attachFilter(fd: number, instructions: TypedArray): number
  /**
   * poll(2) for an array of struct pollfd. If the array is empty, only sleeps. If `timeoutMs` is -1, there is no time
   * limit.
   */
  poll(requests: TypedArray, timeoutMs: number): number
  inotify_init1(flags: number): number
  inotify_add_watch(fd: number, path: string, mask: number): number
  getrandom(into: TypedArray, flags: number): number

  pipe2(pair: TypedArray, flags: number): number
  /**
   * Starts a program with exactly these arguments and variables. Its descriptors 0 to 2 are copies of the given ones,
   * which must be above 2; all others are closed. No signal is blocked or ignored. With `ownSession` 1 the program gets
   * its own session, setsid(2). Returns the process ID, or the error of the failed step, which may be execve(2).
   */
  startProcess(
    path: string,
    argv: readonly string[],
    environment: readonly string[],
    directory: string | null,
    descriptors: Int32Array,
    ownSession: number,
  ): number
  /** Runs a program to its end. Only on a back end whose `startProcess` returns `ENOSYS`. */
  runProgram?(program: ProgramRun): ProgramEnd
  pidfd_open(pid: number, flags: number): number
  wait4(pid: number, status: TypedArray, options: number): number
  kill(pid: number, signal: number): number
  /** rt_sigprocmask(2) with a set of 64 signals; `size` is 8. */
  rt_sigprocmask(how: number, set: TypedArray, size: number): number
  signalfd4(fd: number, set: TypedArray, size: number, flags: number): number
  /** prlimit(2) that sets a struct rlimit64. */
  prlimit64(pid: number, resource: number, limit: TypedArray): number

  /** clock_gettime(2) into a struct timespec of 16 bytes. */
  clock_gettime(clock: number, into: TypedArray): number
  timerfd_create(clock: number, flags: number): number
  /** timerfd_settime(2) with a struct itimerspec of 32 bytes. */
  timerfd_settime(fd: number, flags: number, time: TypedArray): number

  /** Encodes a text as UTF-8. A lone surrogate becomes U+FFFD. */
  encodeUtf8(text: string): Uint8Array<ArrayBuffer>
  /** Decodes UTF-8 and keeps a byte order mark. Malformed bytes become U+FFFD (WHATWG Encoding, "UTF-8 decoder"). */
  decodeUtf8(bytes: Uint8Array): string
  /** Decodes each byte to the character with its number, ISO 8859-1. */
  decodeLatin1(bytes: Uint8Array): string
  /** Returns the CRC-32 of bytes (IEEE 802.3). */
  crc32(bytes: Uint8Array): number
  /** Writes the SHA-256 (FIPS 180-4) of a file as 32 bytes. Reads by pread(2). Returns 0, or the error of a read. */
  sha256(fd: number, into: TypedArray): number
  /** Returns the offset of `sought` at or after `from`; -1 if it does not occur. */
  findBytes(bytes: Uint8Array, sought: Uint8Array, from: number): number

  /** Returns the milliseconds of a monotonic clock, whose zero depends on the back end. */
  monotonicMs(): number
  /** Frees cycles of references. A long-running process must call it. */
  collectGarbage(): void
  /** Runs the jobs of settled promises. Throws an unhandled rejection. Only on an engine without an event loop. */
  runJobs?(): void
  /** Calls `act` once after `ms` milliseconds, in the engine's event loop. Returns a function that cancels this. */
  later?(ms: number, act: () => void): () => void
  /** Calls `act` for each signal with this number, in the engine's event loop. Returns a function that ends this. */
  onSignal?(signal: number, act: () => void): () => void
  /** Returns the engine's `AbortController`. */
  newStop?(): Stop
  /** Runs a program to its end in the engine's event loop. Only on a back end whose `startProcess` returns `ENOSYS`. */
  startProgram?(program: ProgramStart): Promise<ProgramEnd & { readonly stopped: boolean }>
  /** Returns the environment as texts "NAME=value", environ(7). */
  environment(): string[]
  /** Returns the command line. It begins with the name by which the program was called. */
  arguments(): string[]
  exit(status: number): never
}

/** The directory and flags for `statx`, <linux/fcntl.h>. */
export const AT_FDCWD = -100
export const AT_SYMLINK_NOFOLLOW = 0x100
export const AT_EMPTY_PATH = 0x1000

/** A program to run to its end. `startProcess` describes the properties. */
export interface ProgramRun {
  readonly path: string
  readonly argv: readonly string[]
  readonly environment: readonly string[]
  readonly directory: string | null
  /** The bytes for the program's stdin; none if undefined. */
  readonly stdin: Uint8Array | undefined
  /** The time limit in milliseconds; none if undefined. */
  readonly timeoutMs: number | undefined
  /** The maximum number of bytes that the program may write to stdout or stderr. It is killed if it writes more. */
  readonly outputLimit: number
}

/** A program that runs in the background. */
export interface ProgramStart extends Omit<ProgramRun, "stdin"> {
  /** The bytes for the program's stdin, or "inherit" for this process's stdin; no bytes if undefined. */
  readonly stdin: Uint8Array | "inherit" | undefined
  /** Whether the program gets its own session, and is killed together with all processes of the session. */
  readonly ownSession: boolean
  /** The time to wait after the program's end for descendants that hold its streams; no limit if undefined. */
  readonly drainMs: number | undefined
  /** Receives each chunk of the stream, which then is not kept. */
  readonly onStdout: ((chunk: Uint8Array) => void) | undefined
  readonly onStderr: ((chunk: Uint8Array) => void) | undefined
  /** The program is killed when this signal aborts. */
  readonly signal: AbortSignal | undefined
}

/** The part of `AbortController` that is used. */
export interface Stop {
  readonly signal: AbortSignal
  abort(reason?: unknown): void
}

/** The outcome of a program that has ended. `startError` is the error that prevented its start, 0 if it was started. */
export interface ProgramEnd {
  readonly startError: number
  /** The exit code; undefined if a signal ended the program. */
  readonly exitCode: number | undefined
  /** The name of the signal that ended the program, such as "SIGKILL"; undefined if the program exited. */
  readonly signal: string | undefined
  readonly timedOut: boolean
  readonly wroteTooMuch: boolean
  readonly stdout: Uint8Array
  readonly stderr: Uint8Array
}

/** JSON that keeps digits: ECMAScript 2026 "JSON.parse source text access", in Node since version 22. */
export interface ExactJson {
  parse(text: string, reviver?: (key: string, value: unknown, context: { source?: string }) => unknown): unknown
  stringify(value: unknown, replacer?: null, indent?: number): string
  rawJSON(text: string): { readonly rawJSON: string }
  isRawJSON(value: unknown): value is { readonly rawJSON: string }
}

/** A resource that an engine can run out of. The engine then throws an exception that is special to the resource. */
export type Exhaustion = "memory" | "stack"

/** A view of an `ArrayBuffer`, except `DataView`. */
export type TypedArray =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | BigUint64Array
  | BigInt64Array
