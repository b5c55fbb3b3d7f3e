import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { bytesOf, type CallName, callNames, checkArguments, EINVAL, integer, rawBytes } from "./calls.ts"
import {
  AT_EMPTY_PATH,
  AT_FDCWD,
  AT_SYMLINK_NOFOLLOW,
  type Engine,
  type Exhaustion,
  type ProgramEnd,
  type ProgramRun,
  type TypedArray,
} from "./engine.ts"
import { forgetEntries, readEntries, setTimes } from "./node-names.ts"
import { startProgram } from "./node-programs.ts"
import { writeStat, writeStatfs } from "./node-stat.ts"
import { environment, loopEngine, textEngine } from "./web.ts"

export { json } from "./node-json.ts"

export { decodeBase64, encodeBase64 } from "./web.ts"

/** <asm-generic/errno.h> */
const EBADF = 9
const ENOSYS = 38

/** Calls a function of Node. Returns its result, or the negated `errno` of its error. Rethrows errors without one. */
function answerOf(call: () => number | undefined): number {
  try {
    return call() ?? 0
  } catch (error) {
    if (error instanceof Error && "errno" in error && typeof error.errno === "number") return -Math.abs(error.errno)
    throw error
  }
}

const isOpenable = (fd: number) => fd >= 0 && fd < 2 ** 31

/** Calls a function for a descriptor. Returns an error for an invalid descriptor, for which Node would throw. */
const onFd = (fd: number, call: () => number | undefined): number => (isOpenable(fd) ? (call() ?? 0) : -EBADF)

/** Reads or writes an array at an offset of a file; with null, at the file's position. */
function move(
  fd: number,
  bytes: TypedArray,
  offset: number | null,
  call: (fd: number, bytes: Uint8Array, at: number, length: number, position: bigint | null) => number,
): number {
  if (!isOpenable(fd)) return -EBADF
  if (offset !== null && offset < 0) return -EINVAL
  const raw = rawBytes(bytes)
  return call(fd, raw, 0, raw.length, offset === null ? null : BigInt(offset))
}

/** Writes to a file. Converts `position` to a number, because Node's write function accepts no other type. */
function write(fd: number, bytes: Uint8Array, at: number, length: number, position: bigint | null): number {
  return fs.writeSync(fd, bytes, at, length, position === null ? null : Number(position))
}

function statx(directory: number, path: string, flags: number, _mask: number, into: TypedArray): number {
  if ((flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) !== 0) return -EINVAL
  const bytes = rawBytes(into)
  if (path === "" && (flags & AT_EMPTY_PATH) !== 0) {
    return onFd(directory, () => writeStat(fs.fstatSync(directory, { bigint: true }), bytes))
  }
  if (directory !== AT_FDCWD && !path.startsWith("/")) return isOpenable(directory) ? -ENOSYS : -EBADF
  const look = (flags & AT_SYMLINK_NOFOLLOW) !== 0 ? fs.lstatSync : fs.statSync
  return writeStat(look(path, { bigint: true }), bytes)
}

function getrandom(into: TypedArray, flags: number): number {
  if (flags !== 0) return -EINVAL
  const bytes = rawBytes(into)
  globalThis.crypto.getRandomValues(bytes)
  return bytes.length
}

/** The system calls for which Node has functions; all others return `ENOSYS`. */
const served: { readonly [name in CallName]?: (...values: never[]) => number | undefined } = {
  open: (path: string, flags: number, mode: number) => fs.openSync(path, flags, mode),
  close: (fd: number) =>
    onFd(fd, () => {
      forgetEntries(fd)
      fs.closeSync(fd)
      return 0
    }),
  read: (fd: number, into: TypedArray) => move(fd, into, null, fs.readSync),
  write: (fd: number, bytes: TypedArray) => move(fd, bytes, null, write),
  pread: (fd: number, into: TypedArray, offset: number) => move(fd, into, offset, fs.readSync),
  pwrite: (fd: number, bytes: TypedArray, offset: number) => move(fd, bytes, offset, write),
  ftruncate: (fd: number, length: number) =>
    length < 0 ? (isOpenable(fd) ? -EINVAL : -EBADF) : onFd(fd, () => void fs.ftruncateSync(fd, length)),
  fsync: (fd: number) => onFd(fd, () => void fs.fsyncSync(fd)),
  statx,
  statfs: (path: string, into: TypedArray) => writeStatfs(fs.statfsSync(path, { bigint: true }), rawBytes(into)),
  linkat: (from: string, to: string) => void fs.linkSync(from, to),
  readlinkat(path: string, into: TypedArray) {
    const target = fs.readlinkSync(path, { encoding: "buffer" })
    const bytes = rawBytes(into)
    if (bytes.length === 0) return -EINVAL
    bytes.set(target.subarray(0, bytes.length))
    return Math.min(target.length, bytes.length)
  },
  getdents64: (fd: number, into: TypedArray) => onFd(fd, () => readEntries(fd, rawBytes(into))),
  utimensat: (path: string, times: TypedArray, flags: number) =>
    flags === 0 ? setTimes(path, rawBytes(times)) : -EINVAL,
  mkdirat: (path: string, mode: number) => void fs.mkdirSync(path, { mode }),
  rename: (from: string, to: string) => void fs.renameSync(from, to),
  unlink: (path: string) => void fs.unlinkSync(path),
  rmdir: (path: string) => void fs.rmdirSync(path),
  getrandom,
  kill: (pid: number, signal: number) => void process.kill(pid, signal),
}

export const servedCalls = Object.keys(served) as CallName[]

const unserved = () => -ENOSYS

function call(name: CallName, values: readonly unknown[]): number {
  const hasNul = checkArguments(name, values)
  const serve = served[name] as ((...given: readonly unknown[]) => number | undefined) | undefined
  if (!serve) return -ENOSYS
  return hasNul ? -EINVAL : answerOf(() => serve(...values))
}

const systemCalls = Object.fromEntries(
  callNames.map((name) => [name, (...values: unknown[]) => call(name, values)]),
) as unknown as Pick<Engine, CallName>

/** Sleeps, like poll(2) without descriptors. Refuses descriptors, because Node cannot report which are ready. */
function poll(requests: TypedArray, timeoutMs: number): number {
  const { byteLength } = bytesOf(requests)
  integer(timeoutMs, -1, 2 ** 31 - 1)
  if (byteLength > 0) return -ENOSYS
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, timeoutMs < 0 ? Number.POSITIVE_INFINITY : timeoutMs)
  return 0
}

/** Runs a program by child_process.spawnSync, which handles pipes, the time limit and the output limit. */
function runProgram({ path, argv, environment, directory, stdin, timeoutMs, outputLimit }: ProgramRun): ProgramEnd {
  const [name = path, ...args] = argv
  const split = (variable: string): [string, string] => {
    const at = variable.indexOf("=")
    return [variable.slice(0, at), variable.slice(at + 1)]
  }
  if ([path, ...argv, ...environment].some((text) => text.includes("\0"))) return notStarted(EINVAL)
  const ended = spawnSync(path, args, {
    argv0: name,
    env: Object.fromEntries(environment.map(split)),
    stdio: [stdin === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    killSignal: "SIGKILL",
    maxBuffer: Math.max(1, outputLimit), // the limit of both streams together
    ...(directory === null ? {} : { cwd: directory }),
    ...(stdin === undefined ? {} : { input: stdin }),
    ...(timeoutMs === undefined ? {} : { timeout: Math.max(1, timeoutMs) }),
  })
  const failure = ended.error as (Error & { code?: string; errno?: number }) | undefined
  const timedOut = failure?.code === "ETIMEDOUT"
  const [stdout, stderr] = [ended.stdout ?? none, ended.stderr ?? none]
  const wroteTooMuch = failure?.code === "ENOBUFS" || Math.max(stdout.length, stderr.length) > outputLimit
  const startError = failure && !timedOut && !wroteTooMuch && ended.pid === 0 ? -(failure.errno ?? -EINVAL) : 0
  if (startError !== 0) return notStarted(startError)
  const [exitCode, signal] = [ended.status ?? undefined, ended.signal ?? undefined]
  const kept = { stdout: stdout.subarray(0, outputLimit), stderr: stderr.subarray(0, outputLimit) }
  return { startError, exitCode, signal, timedOut, wroteTooMuch, ...kept }
}

function notStarted(startError: number): ProgramEnd {
  const ended = { exitCode: undefined, signal: undefined, timedOut: false, wroteTooMuch: false }
  return { startError, ...ended, stdout: none, stderr: none }
}

const none = new Uint8Array()

/**
 * The engine interface on Node: Node's own modules implement files, programs, digests, text and the environment. Calls
 * that need a foreign function interface (sockets, namespaces, locks, pipes) return `ENOSYS`.
 */
export const engine: Engine = {
  ...systemCalls,
  ioctlIfreq: unserved,
  ioctlWinsize: unserved,
  sendDescriptors: unserved,
  poll,
  startProcess: unserved,
  runProgram,
  startProgram,
  pidfd_open: unserved,
  attachFilter: unserved,
  rt_sigprocmask: unserved,
  signalfd4: unserved,
  sha256: unserved,
  collectGarbage: () => {},
  ...textEngine,
  ...loopEngine,
  environment,
  arguments: () => [process.argv0, ...process.argv.slice(2)],
  exit: (status) => process.exit(integer(status, 0, 255)),
}

/** Returns the resource that has run out, if the error has this meaning. */
export function exhaustion(error: unknown): Exhaustion | undefined {
  if (!(error instanceof RangeError)) return undefined
  if (/^(Out of memory|Array buffer allocation failed|Invalid string length)/.test(error.message)) return "memory"
  return /^Maximum call stack size exceeded\.?$/.test(error.message) ? "stack" : undefined
}

/** Returns undefined, because stack traces already name files, and with `--enable-source-maps` the sources. */
export function locate(): string | undefined {
  return undefined
}
