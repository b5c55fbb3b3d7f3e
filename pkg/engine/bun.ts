import { dlopen, type FFIFunction, FFIType, ptr, read } from "bun:ffi"
import type { Engine, TypedArray } from "./engine.ts"

/**
 * The door on Bun, by the C library: for the tests, for `bun plugins/bridge/main.ts` and for the tool `cni`. The letters are
 * those of `host/door.c`: `i` and `l` integers of 32 and 53 bits, `s` a text, `b` an array and its length, `[N]` an array of
 * at least N bytes, `0` a zero that the caller does not give.
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
  ioctl: "ii0",
  statx: "isii[256]",
  getdents64: "ib",
  link: "ss",
  symlink: "ss",
  readlink: "sb",
  mkdir: "si",
  utimensat: "@s[32]i",
  rename: "ss",
  unlink: "s",
  rmdir: "s",
  socket: "iii",
  bind: "ib",
  setsockopt: "iiib",
  send: "ibi",
  recvfrom: "ibi[12][4]",
  socketpair: "iii[8]",
  setns: "ii",
  inotify_init1: "i",
  inotify_add_watch: "isi",
  getrandom: "bi",
  pipe2: "[8]i",
  wait4: "i[4]i0",
  kill: "ii",
} as const

const AT_FDCWD = -100
const SYS_pidfd_open = 434 // on all architectures; the C library has a function of that name since glibc 2.36

/** Letters of a call, one for each argument: "i", "[256]". */
const lettersOf = (signature: string) => signature.match(/\[\d+\]|./g) ?? []

/** Those that return a `ssize_t`; the others return an `int`. */
const longs = new Set(["read", "write", "pread", "pwrite", "getdents64", "readlink", "send", "recvfrom", "getrandom"])

function foreign(name: string, signature: string): FFIFunction {
  const types = lettersOf(signature).flatMap((letter): FFIType[] =>
    letter === "b"
      ? [FFIType.ptr, FFIType.u64]
      : [letter === "i" || letter === "@" ? FFIType.i32 : letter === "l" ? FFIType.i64 : FFIType.ptr],
  )
  return { args: types, returns: longs.has(name) ? FFIType.i64_fast : FFIType.i32 }
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

const libc = once(() => {
  const table: Record<string, FFIFunction> = {
    __errno_location: { args: [], returns: FFIType.ptr },
    poll: { args: ["ptr", "u64", "i32"], returns: "i32" },
    sendmsg: { args: ["i32", "ptr", "i32"], returns: FFIType.i64_fast },
    syscall: { args: ["i64", "i64", "i64"], returns: FFIType.i64_fast },
    posix_spawn: { args: ["ptr", "ptr", "ptr", "ptr", "ptr", "ptr"], returns: "i32" },
    posix_spawn_file_actions_init: { args: ["ptr"], returns: "i32" },
    posix_spawn_file_actions_adddup2: { args: ["ptr", "i32", "i32"], returns: "i32" },
    posix_spawn_file_actions_addchdir_np: { args: ["ptr", "ptr"], returns: "i32" },
    posix_spawnattr_init: { args: ["ptr"], returns: "i32" },
    posix_spawnattr_setflags: { args: ["ptr", "i32"], returns: "i32" },
    posix_spawnattr_setsigdefault: { args: ["ptr", "ptr"], returns: "i32" },
    posix_spawnattr_setsigmask: { args: ["ptr", "ptr"], returns: "i32" },
  }
  for (const [name, signature] of Object.entries(calls)) table[name] = foreign(name, signature)
  return dlopen("libc.so.6", table).symbols as unknown as Symbols
})

const errnoAddress = once(() => Number(libc().__errno_location?.()))

/** An integer argument, or an exception. */
function integer(value: unknown, least: number, most: number): number {
  if (typeof value !== "number") throw new TypeError("expected an integer")
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`expected an integer from ${least} to ${most}`)
  }
  return value
}

function bytesOf(value: unknown): TypedArray {
  if (!ArrayBuffer.isView(value) || value instanceof DataView) throw new TypeError("expected a typed array")
  if (value.buffer instanceof ArrayBuffer && value.buffer.detached)
    throw new TypeError("expected an array that is not detached")
  return value as TypedArray
}

const addressOf = (bytes: TypedArray) => (bytes.byteLength === 0 ? null : ptr(bytes))

/** A text with the zero byte that ends it in C. */
function text(value: unknown): Uint8Array {
  if (typeof value !== "string") throw new TypeError("expected a text")
  return new TextEncoder().encode(`${value}\0`)
}

const EINVAL = 22

/** Calls a function of the C library; its errno is read in the very next call. */
function call(name: keyof typeof calls, ...values: unknown[]): number {
  const raw: unknown[] = []
  const kept: unknown[] = [] // what the kernel is told the address of must live
  const given = values[Symbol.iterator]()
  const next = () => given.next().value
  let broken = false
  for (const letter of lettersOf(calls[name])) {
    if (letter === "@" || letter === "0") {
      raw.push(letter === "@" ? AT_FDCWD : null)
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
      raw.push(addressOf(bytes))
      if (letter === "b") raw.push(bytes.byteLength)
    }
  }
  if (broken) return -EINVAL
  const symbol = libc()[name]
  const errnoAt = errnoAddress()
  const answer = Number(symbol?.(...raw))
  const errno = answer === -1 ? read.i32(errnoAt as never, 0) : 0
  return kept.length >= 0 && answer === -1 ? -errno : answer
}

function poll(requests: TypedArray, timeoutMs: number): number {
  const bytes = bytesOf(requests)
  integer(timeoutMs, -1, 2 ** 31 - 1)
  const errnoAt = errnoAddress()
  const symbol = libc().poll
  const answer = Number(symbol?.(addressOf(bytes), Math.floor(bytes.byteLength / 8), timeoutMs))
  return answer === -1 ? -read.i32(errnoAt as never, 0) : answer
}

function pidfdOpen(pid: number, flags: number): number {
  const errnoAt = errnoAddress()
  const symbol = libc().syscall
  const answer = Number(symbol?.(SYS_pidfd_open, integer(pid, -(2 ** 31), 2 ** 31 - 1), integer(flags, 0, 2 ** 32 - 1)))
  return answer === -1 ? -read.i32(errnoAt as never, 0) : answer
}

/** struct msghdr and struct cmsghdr of 64-bit Linux, <bits/socket.h> */
function sendDescriptors(fd: number, descriptors: Int32Array): number {
  const bytes = bytesOf(descriptors)
  integer(fd, 0, 2 ** 31 - 1)
  if (bytes.byteLength > 32) throw new RangeError("expected 8 descriptors at most")
  const space = 16 + ((bytes.byteLength + 7) & ~7)
  const control = new Int32Array(space / 4)
  control.set([16 + bytes.byteLength, 0, 1, 1]) // length of 64 bits, SOL_SOCKET, SCM_RIGHTS
  control.set(descriptors, 4)
  const message = new BigUint64Array([0n, 0n, 0n, 0n, BigInt(ptr(control)), BigInt(space), 0n])
  const errnoAt = errnoAddress()
  const symbol = libc().sendmsg
  const answer = Number(symbol?.(fd, ptr(message), 0))
  return answer === -1 ? -read.i32(errnoAt as never, 0) : answer
}

const POSIX_SPAWN_SETSIGDEF = 4
const POSIX_SPAWN_SETSIGMASK = 8

function startProcess(
  path: string,
  argv: readonly string[],
  environment: readonly string[],
  directory: string | null,
  descriptors: Int32Array,
): number {
  const kept: Uint8Array[] = []
  const address = (value: unknown) => {
    const bytes = text(value)
    kept.push(bytes)
    return BigInt(ptr(bytes))
  }
  const list = (values: readonly string[]) => {
    if (!Array.isArray(values)) throw new TypeError("expected an array of texts")
    return new BigUint64Array([...values.map(address), 0n])
  }
  const [program, names, variables] = [address(path), list(argv), list(environment)]
  const cwd = directory === null ? undefined : address(directory)
  const fds = bytesOf(descriptors)
  if (fds.byteLength !== 12) throw new RangeError("expected three descriptors")
  if (kept.some((bytes) => bytes.indexOf(0) !== bytes.length - 1)) return -EINVAL

  const c = libc()
  // posix_spawn_file_actions_t, posix_spawnattr_t and sigset_t: larger than on any C library
  const [actions, attributes, signals] = [new Uint8Array(512), new Uint8Array(512), new Uint8Array(128)]
  c.posix_spawn_file_actions_init?.(ptr(actions))
  for (const [at, fd] of descriptors.entries()) c.posix_spawn_file_actions_adddup2?.(ptr(actions), fd, at)
  if (cwd !== undefined) c.posix_spawn_file_actions_addchdir_np?.(ptr(actions), Number(cwd))
  c.posix_spawnattr_init?.(ptr(attributes))
  c.posix_spawnattr_setsigmask?.(ptr(attributes), ptr(signals))
  c.posix_spawnattr_setsigdefault?.(ptr(attributes), ptr(signals.fill(0xff)))
  c.posix_spawnattr_setflags?.(ptr(attributes), POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK)
  const pid = new Int32Array(1)
  const error = Number(
    c.posix_spawn?.(ptr(pid), Number(program), ptr(actions), ptr(attributes), ptr(names), ptr(variables)),
  )
  return error === 0 ? (pid[0] ?? 0) : -error
}

/** A system call whose name in the C library is its own. */
const same =
  (name: keyof typeof calls) =>
  (...values: unknown[]) =>
    call(name, ...values)

export const engine: Engine = {
  open: same("open"),
  close: same("close"),
  read: same("read"),
  write: same("write"),
  pread: same("pread"),
  pwrite: same("pwrite"),
  ftruncate: same("ftruncate"),
  fsync: same("fsync"),
  flock: same("flock"),
  fcntl: same("fcntl"),
  ioctl: same("ioctl"),
  statx: same("statx"),
  getdents64: same("getdents64"),
  linkat: same("link"),
  symlinkat: same("symlink"),
  readlinkat: same("readlink"),
  mkdirat: same("mkdir"),
  utimensat: same("utimensat"),
  rename: same("rename"),
  unlink: same("unlink"),
  rmdir: same("rmdir"),
  socket: same("socket"),
  bind: same("bind"),
  setsockopt: same("setsockopt"),
  sendto: same("send"),
  recvfrom: same("recvfrom"),
  socketpair: same("socketpair"),
  sendDescriptors,
  setns: same("setns"),
  poll,
  inotify_init1: same("inotify_init1"),
  inotify_add_watch: same("inotify_add_watch"),
  getrandom: same("getrandom"),
  pipe2: same("pipe2"),
  startProcess,
  pidfd_open: pidfdOpen,
  wait4: same("wait4"),
  kill: same("kill"),
  encodeUtf8(value) {
    if (typeof value !== "string") throw new TypeError("expected a text")
    return new TextEncoder().encode(value)
  },
  decodeUtf8: (bytes) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytesOf(bytes) as Uint8Array),
  decodeLatin1: (bytes) => Buffer.from(bytesOf(bytes) as Uint8Array).toString("latin1"),
  monotonicMs: () => performance.now(),
  environment: () => Object.entries(process.env).map(([name, value]) => `${name}=${value ?? ""}`),
  arguments: () => [process.argv0, ...process.argv.slice(2)],
  exit: (status) => process.exit(integer(status, 0, 255)),
}

const root = new URL("../../", import.meta.url).pathname

/** The same for Bun, whose stack traces name source files by themselves. */
export function locate(file: string, line: number): string | undefined {
  return file.startsWith(root) && !file.includes("node_modules") ? `${file.slice(root.length)}:${line}` : undefined
}
