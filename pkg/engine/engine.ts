/**
 * Everything that a plugin's process needs from the engine: system calls, programs, text, the clock, the process
 * itself. There are three back ends: the native host (`host/door.c`), Bun (`bun.ts`), and Node (`node.ts`), and one
 * contract,
 * `contract.fixture.ts`. Node's is for the npm package `libcni`: it has what a runtime's library needs, and answers `ENOSYS` to the
 * other system calls.
 *
 * A system call returns what the kernel returns: a number, and the negative number of an error (<asm-generic/errno.h>)
 * when it fails. Wrong arguments never reach the kernel: what is no number, text or typed array throws `TypeError`, and
 * so does a detached array; a number that is no integer of the range, and an array that is too short for a struct,
 * throw
 * `RangeError`. A text with NUL inside is the kernel's `EINVAL`. What is called `into` or `bytes` is read or written to its
 * whole length.
 */
export interface Engine {
  /** open(2) */
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
  /** ioctl(2) of a request with a number as argument, or without an argument. */
  ioctl(fd: number, request: number, value: number): number
  /** ioctl(2) of a request that takes a struct ifreq of 40 bytes, <linux/if.h>, and no more. */
  ioctlIfreq(fd: number, request: number, ifreq: TypedArray): number
  /** ioctl(2) of a request that takes a struct winsize of 8 bytes, <asm-generic/termios.h>, and no more. */
  ioctlWinsize(fd: number, request: number, winsize: TypedArray): number
  fsetxattr(fd: number, name: string, value: TypedArray, flags: number): number
  /** statx(2) into a struct of 256 bytes. */
  statx(directory: number, path: string, flags: number, mask: number, into: TypedArray): number
  /** statfs(2) into a struct of 120 bytes. */
  statfs(path: string, into: TypedArray): number
  getdents64(fd: number, into: TypedArray): number
  /** link(2), as linkat(2): the names that end in "at" are those that system call filters see. */
  linkat(from: string, to: string): number
  readlinkat(path: string, into: TypedArray): number
  mkdirat(path: string, mode: number): number
  /** utimensat(2) with two struct timespec, access before modification. */
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
  /** recvfrom(2); the first 12 bytes of the sender's address go into `from`, a whole struct sockaddr_nl. */
  recvfrom(fd: number, into: TypedArray, flags: number, from: TypedArray): number
  socketpair(family: number, type: number, protocol: number, pair: TypedArray): number
  /** sendmsg(2) of SCM_RIGHTS with eight descriptors at most, and of nothing else. */
  sendDescriptors(fd: number, descriptors: Int32Array): number
  setns(fd: number, type: number): number
  /** unshare(2), of this thread. */
  unshare(flags: number): number
  listen(fd: number, backlog: number): number
  /** accept4(2); who connects is not told. */
  accept4(fd: number, flags: number): number
  connect(fd: number, address: TypedArray): number
  /** getsockopt(2) of an option of 4 bytes. */
  getsockopt(fd: number, level: number, option: number, into: TypedArray): number
  /** SO_ATTACH_FILTER with instructions of 8 bytes, struct sock_filter; 4096 at most. */
  attachFilter(fd: number, instructions: TypedArray): number
  /** poll(2) of an array of struct pollfd; without any it sleeps. -1 is no time limit. */
  poll(requests: TypedArray, timeoutMs: number): number
  inotify_init1(flags: number): number
  inotify_add_watch(fd: number, path: string, mask: number): number
  /** getrandom(2) */
  getrandom(into: TypedArray, flags: number): number

  pipe2(pair: TypedArray, flags: number): number
  /**
   * Starts a program: `argv` and `environment` whole, descriptors 0 to 2 from those given, which are above 2, and no others,
   * no signal blocked or ignored, with `ownSession` 1 in a session of its own, setsid(2). Returns the process' id, or the error of
   * the step that failed, execve(2) included.
   */
  startProcess(
    path: string,
    argv: readonly string[],
    environment: readonly string[],
    directory: string | null,
    descriptors: Int32Array,
    ownSession: number,
  ): number
  /** Runs a program to its end, on a back end whose `startProcess` is `ENOSYS`. */
  runProgram?(program: ProgramRun): ProgramEnd
  pidfd_open(pid: number, flags: number): number
  wait4(pid: number, status: TypedArray, options: number): number
  kill(pid: number, signal: number): number
  /** rt_sigprocmask(2) with a set of 64 signals; `size` is 8. */
  rt_sigprocmask(how: number, set: TypedArray, size: number): number
  signalfd4(fd: number, set: TypedArray, size: number, flags: number): number
  /** prlimit(2), which sets a struct rlimit64. */
  prlimit64(pid: number, resource: number, limit: TypedArray): number

  /** clock_gettime(2) into a struct timespec of 16 bytes. */
  clock_gettime(clock: number, into: TypedArray): number
  timerfd_create(clock: number, flags: number): number
  /** timerfd_settime(2) with a struct itimerspec of 32 bytes. */
  timerfd_settime(fd: number, flags: number, time: TypedArray): number

  /** UTF-8 of a text; a lone surrogate becomes U+FFFD. */
  encodeUtf8(text: string): Uint8Array<ArrayBuffer>
  /** The text of UTF-8, a byte order mark kept; malformed bytes become U+FFFD (WHATWG Encoding, "UTF-8 decoder"). */
  decodeUtf8(bytes: Uint8Array): string
  /** A character for each byte. */
  decodeLatin1(bytes: Uint8Array): string
  /** CRC-32 of bytes (IEEE 802.3). */
  crc32(bytes: Uint8Array): number
  /** SHA-256 (FIPS 180-4) of a whole file, by pread(2): 32 bytes into `into`. Answers 0, or the error of a read. */
  sha256(fd: number, into: TypedArray): number
  /** Where the sought bytes begin, at `from` or behind it; -1 where they are not. */
  findBytes(bytes: Uint8Array, sought: Uint8Array, from: number): number

  /** Milliseconds of a clock that only goes forward. Each back end has a start of its own. */
  monotonicMs(): number
  /** Frees what refers to itself only: a process that goes on for days has to ask for it. */
  collectGarbage(): void
  /**
   * Runs what waits for promises that are settled, until nothing does. Throws what a promise was rejected with that nothing listens to.
   * Only where promises are not driven by the engine's own loop.
   */
  runJobs?(): void
  /**
   * Calls a function once after `ms` milliseconds, by the engine's own event loop. Returns a function that cancels it.
   */
  later?(ms: number, act: () => void): () => void
  /** Has the engine's own loop call a function for each signal of a number. Returns how that ends. */
  onSignal?(signal: number, act: () => void): () => void
  /** The engine's own way to say stop. */
  newStop?(): Stop
  /** Starts a program and waits for its end in the engine's own loop, on a back end whose `startProcess` is `ENOSYS`. */
  startProgram?(program: ProgramStart): Promise<ProgramEnd & { readonly stopped: boolean }>
  /** Texts "NAME=value", environ(7). */
  environment(): string[]
  /** The command line, the name that the program was called by first. */
  arguments(): string[]
  /** Ends the process at once. */
  exit(status: number): never
}

/** The directory and the flags that `statx` takes, <linux/fcntl.h>. */
export const AT_FDCWD = -100
export const AT_SYMLINK_NOFOLLOW = 0x100
export const AT_EMPTY_PATH = 0x1000

/** A program to run as a whole; see `startProcess` for its parts. */
export interface ProgramRun {
  readonly path: string
  readonly argv: readonly string[]
  readonly environment: readonly string[]
  readonly directory: string | null
  /** Empty when undefined. */
  readonly stdin: Uint8Array | undefined
  /** No limit when undefined. */
  readonly timeoutMs: number | undefined
  /** With more bytes than this on stdout or stderr the program is killed. */
  readonly outputLimit: number
}

/** A program that runs while other things go on. */
export interface ProgramStart extends Omit<ProgramRun, "stdin"> {
  /** "inherit" is our own; empty when undefined. */
  readonly stdin: Uint8Array | "inherit" | undefined
  /** It has a session of its own, and is killed with all that is in it. */
  readonly ownSession: boolean
  /** How long to wait, when it has ended, for descendants that have its streams open; until they close them when undefined. */
  readonly drainMs: number | undefined
  /** What gets each piece of a stream, of which nothing is kept then. */
  readonly onStdout: ((chunk: Uint8Array) => void) | undefined
  readonly onStderr: ((chunk: Uint8Array) => void) | undefined
  /** The program is killed when this says stop. */
  readonly signal: AbortSignal | undefined
}

/** `AbortController`. */
export interface Stop {
  readonly signal: AbortSignal
  abort(reason?: unknown): void
}

/** How it ended. `startError` is the number of the error by which it was not started, 0 when it was. */
export interface ProgramEnd {
  readonly startError: number
  /** Undefined when a signal ended it. */
  readonly exitCode: number | undefined
  /** "SIGKILL"; undefined when it exited. */
  readonly signal: string | undefined
  readonly timedOut: boolean
  readonly wroteTooMuch: boolean
  readonly stdout: Uint8Array
  readonly stderr: Uint8Array
}

/** JSON that keeps the digits of numbers: ECMAScript 2026 "JSON.parse source text access", which Node has from 22 on. */
export interface ExactJson {
  parse(text: string, reviver?: (key: string, value: unknown, context: { source?: string }) => unknown): unknown
  stringify(value: unknown, replacer?: null, indent?: number): string
  rawJSON(text: string): { readonly rawJSON: string }
  isRawJSON(value: unknown): value is { readonly rawJSON: string }
}

/** What an engine can run out of, which it tells by an exception of its own. */
export type Exhaustion = "memory" | "stack"

/** The views of an `ArrayBuffer`, but for `DataView`. */
export type TypedArray =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | BigUint64Array
  | BigInt64Array
