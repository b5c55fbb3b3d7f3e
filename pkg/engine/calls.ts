import type { TypedArray } from "./engine.ts"

/**
 * The system calls of the engine interface with the types of their arguments, for the back ends in TypeScript. The
 * letters are those of `host/door.c`: `i` and `l` are integers of 32 and 53 bits, `s` is a text, `b` an array and its
 * length, `[N]` an array of at least N bytes. The back end adds arguments that the caller does not pass: `n` is the
 * length of the array before it, `0` is zero, `@` is the working directory.
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
  fsetxattr: "isbi",
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
  unshare: "i",
  listen: "ii",
  accept4: "i00i",
  connect: "ib",
  getsockopt: "iii[4]n",
  fchmodat: "@si0",
  lgetxattr: "ssb",
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

/** The letters of a call, one for each argument: "i", "[256]". */
export const lettersOf = Object.fromEntries(
  callNames.map((name) => [name, calls[name].match(/\[\d+\]|./g) ?? []]),
) as unknown as Readonly<Record<CallName, readonly string[]>>

const encoder = new TextEncoder()

/** The error for a text that contains NUL, <asm-generic/errno-base.h>. */
export const EINVAL = 22

/** Returns the argument if it is an integer from `least` to `most`. Throws `TypeError` or `RangeError` if not. */
export function integer(value: unknown, least: number, most: number): number {
  if (typeof value !== "number") throw new TypeError("expected an integer")
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`expected an integer from ${least} to ${most}`)
  }
  return value
}

/** Returns the argument if it is a typed array. Throws `TypeError` if not. */
export function bytesOf(value: unknown): TypedArray {
  if (!ArrayBuffer.isView(value) || value instanceof DataView) throw new TypeError("expected a typed array")
  if (value.buffer instanceof ArrayBuffer && value.buffer.detached)
    throw new TypeError("expected an array that is not detached")
  return value as TypedArray
}

/** Returns the argument if it is a typed array of at least `least` bytes. Throws `TypeError` or `RangeError` if not. */
export function requireBytes(value: unknown, least: number): TypedArray {
  const bytes = bytesOf(value)
  if (bytes.byteLength < least) throw new RangeError(`expected an array of ${least} bytes`)
  return bytes
}

/** Returns the argument if it is an integer of 32 bits, signed or unsigned. Throws `TypeError` or `RangeError`. */
export const int32 = (value: unknown) => integer(value, -(2 ** 31), 2 ** 32 - 1)

export function rawBytes({ buffer, byteOffset, byteLength }: TypedArray): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength)
}

/** Returns a text as UTF-8 with a trailing zero byte. Throws `TypeError` for another value. */
export function text(value: unknown): Uint8Array {
  if (typeof value !== "string") throw new TypeError("expected a text")
  return encoder.encode(`${value}\0`)
}

/**
 * Throws for wrong arguments like the native host. Returns true if a text contains NUL; the call then returns `EINVAL`.
 */
export function checkArguments(name: CallName, values: readonly unknown[]): boolean {
  let given = 0
  let hasNul = false
  for (const letter of lettersOf[name]) {
    if ("@0n".includes(letter)) continue
    const value = values[given++]
    if (letter === "i") int32(value)
    else if (letter === "l") integer(value, -(2 ** 53), 2 ** 53)
    else if (letter === "s") hasNul = text(value).indexOf(0) !== text(value).length - 1 || hasNul
    else requireBytes(value, letter === "b" ? 0 : Number(letter.slice(1, -1)))
  }
  return hasNul
}
