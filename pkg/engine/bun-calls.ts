import { dlopen, type FFIFunction, FFIType, ptr, read } from "bun:ffi"
import type { TypedArray } from "./engine.ts"

/**
 * System calls on Bun, by the C library. The letters are those of `host/door.c`: `i` and `l` integers of 32 and 53 bits, `s` a
 * text, `b` an array and its length, `[N]` an array of at least N bytes, `n` the length of that array for the kernel, `0` a zero:
 * neither is given by the caller.
 */
const calls = {
  open: "sii",
  close: "i",
  read: "ib",
  write: "ib",
  pread: "ibl",
  pwrite: "ibl",
  ftruncate: "il",
  fsync: "i",
  flock: "ii",
  fcntl: "iil",
  ioctl: "iil",
  statx: "isii[256]",
  statfs: "s[120]",
  getdents64: "ib",
  linkat: "ss",
  readlinkat: "sb",
  mkdirat: "si",
  utimensat: "@s[32]i",
  rename: "ss",
  unlink: "s",
  rmdir: "s",
  socket: "iii",
  bind: "ib",
  setsockopt: "iiib",
  sendto: "ibi",
  recvfrom: "ibi[12]n",
  socketpair: "iii[8]",
  setns: "ii",
  listen: "ii",
  accept4: "i00i",
  connect: "ib",
  inotify_init1: "i",
  inotify_add_watch: "isi",
  getrandom: "bi",
  pipe2: "[8]i",
  wait4: "i[4]i0",
  kill: "ii",
  prlimit64: "ii[16]0",
  clock_gettime: "i[16]",
  timerfd_create: "ii",
  timerfd_settime: "ii[32]0",
} as const

export type CallName = keyof typeof calls

export const callNames = Object.keys(calls) as CallName[]

/** What the C library calls those that have another name there. */
const namesInC: { readonly [name in CallName]?: string } = {
  linkat: "link",
  readlinkat: "readlink",
  mkdirat: "mkdir",
  sendto: "send",
  prlimit64: "prlimit",
}

const AT_FDCWD = -100
/** Of calls that the C library has no function for, or another one than the kernel's; those of signals are of x86-64. */
export const SYS = { pidfd_open: 434, rt_sigprocmask: 14, signalfd4: 289 } as const

/** Letters of a call, one for each argument: "i", "[256]". */
const lettersOf = (signature: string) => signature.match(/\[\d+\]|./g) ?? []

/** Of those that return a `ssize_t` an `int` says all: Linux moves 0x7ffff000 bytes at most at once, read(2). */
function foreign(signature: string): FFIFunction {
  const types = lettersOf(signature).flatMap((letter): FFIType[] =>
    letter === "b"
      ? [FFIType.ptr, FFIType.u64]
      : [letter === "i" || letter === "@" ? FFIType.i32 : letter === "l" ? FFIType.i64 : FFIType.ptr],
  )
  return { args: types, returns: FFIType.i32 }
}

type Symbols = Record<string, (...values: unknown[]) => unknown>

/** What is opened when it is first needed, and then kept: importing this does nothing. */
function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

export const libc = once(() => {
  const table: Record<string, FFIFunction> = {
    __errno_location: { args: [], returns: FFIType.ptr },
    signal: { args: ["i32", "ptr"], returns: "ptr" },
    poll: { args: ["ptr", "u64", "i32"], returns: "i32" },
    sendmsg: { args: ["i32", "ptr", "i32"], returns: FFIType.i64_fast },
    syscall: { args: ["i64", "i64", "i64", "i64", "i64"], returns: FFIType.i64_fast },
    posix_spawn: { args: ["ptr", "ptr", "ptr", "ptr", "ptr", "ptr"], returns: "i32" },
    posix_spawn_file_actions_init: { args: ["ptr"], returns: "i32" },
    posix_spawn_file_actions_destroy: { args: ["ptr"], returns: "i32" },
    posix_spawn_file_actions_adddup2: { args: ["ptr", "i32", "i32"], returns: "i32" },
    posix_spawn_file_actions_addchdir_np: { args: ["ptr", "ptr"], returns: "i32" },
    posix_spawn_file_actions_addclosefrom_np: { args: ["ptr", "i32"], returns: "i32" },
    posix_spawnattr_init: { args: ["ptr"], returns: "i32" },
    posix_spawnattr_setflags: { args: ["ptr", "i32"], returns: "i32" },
    posix_spawnattr_setsigdefault: { args: ["ptr", "ptr"], returns: "i32" },
    posix_spawnattr_setsigmask: { args: ["ptr", "ptr"], returns: "i32" },
  }
  for (const name of callNames) table[namesInC[name] ?? name] = foreign(calls[name])
  return dlopen("libc.so.6", table).symbols as unknown as Symbols
})

const errnoAddress = once(() => Number(libc().__errno_location?.()))

/** An integer argument, or an exception. */
export function integer(value: unknown, least: number, most: number): number {
  if (typeof value !== "number") throw new TypeError("expected an integer")
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`expected an integer from ${least} to ${most}`)
  }
  return value
}

export function bytesOf(value: unknown): TypedArray {
  if (!ArrayBuffer.isView(value) || value instanceof DataView) throw new TypeError("expected a typed array")
  if (value.buffer instanceof ArrayBuffer && value.buffer.detached)
    throw new TypeError("expected an array that is not detached")
  return value as TypedArray
}

/** The bytes that an array of any type has in its buffer. */
export function rawBytes({ buffer, byteOffset, byteLength }: TypedArray): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength)
}

export const addressOf = (bytes: TypedArray) => (bytes.byteLength === 0 ? null : ptr(bytes))

/** A text with the zero byte that ends it in C. */
export function text(value: unknown): Uint8Array {
  if (typeof value !== "string") throw new TypeError("expected a text")
  return new TextEncoder().encode(`${value}\0`)
}

/** Calls a function of the C library; its errno is read in the very next call. */
export function callC(name: string, ...values: unknown[]): number {
  const symbol = libc()[name]
  const errnoAt = errnoAddress()
  const answer = Number(symbol?.(...values))
  return answer === -1 ? -read.i32(errnoAt as never, 0) : answer
}

const EINVAL = 22

/** Makes a system call with the arguments of `Engine`. */
export function call(name: CallName, ...values: unknown[]): number {
  const raw: unknown[] = []
  const kept: unknown[] = [] // their addresses go to the kernel: they must live
  const given = values[Symbol.iterator]()
  const next = () => given.next().value
  let broken = false
  const room = new Uint32Array(1) // what "n" stands for
  for (const letter of lettersOf(calls[name])) {
    if (letter === "@" || letter === "0") {
      raw.push(letter === "@" ? AT_FDCWD : null)
      continue
    }
    if (letter === "n") {
      raw.push(ptr(room))
      continue
    }
    const value: unknown = next()
    if (letter === "i") raw.push(integer(value, -(2 ** 31), 2 ** 32 - 1) | 0)
    else if (letter === "l") raw.push(BigInt(integer(value, -(2 ** 53), 2 ** 53)))
    else if (letter === "s") {
      const bytes = text(value)
      broken ||= bytes.indexOf(0) !== bytes.length - 1
      kept.push(bytes)
      raw.push(ptr(bytes))
    } else {
      const bytes = bytesOf(value)
      const least = letter === "b" ? 0 : Number(letter.slice(1, -1))
      if (bytes.byteLength < least) throw new RangeError(`expected an array of ${least} bytes`)
      room[0] = least
      raw.push(addressOf(bytes))
      if (letter === "b") raw.push(bytes.byteLength)
    }
  }
  if (broken) return -EINVAL
  const answer = callC(namesInC[name] ?? name, ...raw)
  return kept.length >= 0 ? answer : 0
}
