import { dlopen, type FFIFunction, FFIType, type Pointer, ptr, read } from "bun:ffi"
import { once } from "./once.ts"

/**
 * Binds functions of the C library on first use and keeps the binding. What nearly every plugin needs is one group: a
 * function costs about 6 µs, a group about 40, and the first one 160 more. The name `libc.so.6` is right on glibc and on musl.
 */
function lazily<const Table extends Record<string, FFIFunction>>(table: Table) {
  return once(() => dlopen("libc.so.6", table).symbols)
}

/** Descriptors, sockets, namespaces, files and directories, and what went wrong with them. */
export const libc = lazily({
  open: { args: ["cstring", "i32", "u32"], returns: "i32" },
  close: { args: ["i32"], returns: "i32" },
  read: { args: ["i32", "ptr", "usize"], returns: FFIType.i64_fast },
  write: { args: ["i32", "ptr", "usize"], returns: FFIType.i64_fast },
  poll: { args: ["ptr", "u64", "i32"], returns: "i32" },
  statx: { args: ["i32", "cstring", "i32", "u32", "ptr"], returns: "i32" },
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
  bind: { args: ["i32", "ptr", "u32"], returns: "i32" },
  setsockopt: { args: ["i32", "i32", "i32", "ptr", "u32"], returns: "i32" },
  send: { args: ["i32", "ptr", "usize", "i32"], returns: FFIType.i64_fast },
  recv: { args: ["i32", "ptr", "usize", "i32"], returns: FFIType.i64_fast },
  setns: { args: ["i32", "i32"], returns: "i32" },
  ioctl: { args: ["i32", "u64", "u64"], returns: "i32" },
  pread: { args: ["i32", "ptr", "usize", "i64"], returns: FFIType.i64_fast },
  pwrite: { args: ["i32", "ptr", "usize", "i64"], returns: FFIType.i64_fast },
  ftruncate: { args: ["i32", "i64"], returns: "i32" },
  fsync: { args: ["i32"], returns: "i32" },
  flock: { args: ["i32", "i32"], returns: "i32" },
  rename: { args: ["cstring", "cstring"], returns: "i32" },
  link: { args: ["cstring", "cstring"], returns: "i32" },
  symlink: { args: ["cstring", "cstring"], returns: "i32" },
  readlink: { args: ["cstring", "ptr", "usize"], returns: FFIType.i64_fast },
  unlink: { args: ["cstring"], returns: "i32" },
  mkdir: { args: ["cstring", "u32"], returns: "i32" },
  rmdir: { args: ["cstring"], returns: "i32" },
  utimensat: { args: ["i32", "cstring", "ptr", "i32"], returns: "i32" },
  __errno_location: { args: [], returns: "ptr" },
  strerror: { args: ["i32"], returns: "cstring" },
})

/** What few need, or old C libraries lack: `getdents64` came with glibc 2.30. */
export const directories = lazily({ getdents64: { args: ["i32", "ptr", "usize"], returns: FFIType.i64_fast } })
export const handing = lazily({
  socketpair: { args: ["i32", "i32", "i32", "ptr"], returns: "i32" },
  sendmsg: { args: ["i32", "ptr", "i32"], returns: FFIType.i64_fast },
})
export const watching = lazily({
  inotify_init1: { args: ["i32"], returns: "i32" },
  inotify_add_watch: { args: ["i32", "cstring", "u32"], returns: "i32" },
})

/** Where this thread's errno lies, always. Asked for before a call, so that nothing comes between it and `errnoAt`. */
export const errnoAddress = once(() => libc().__errno_location())

/** errno of the call just made: the very next thing to do, since anything in between may change it. */
export function errnoAt(address: Pointer | bigint | null): number {
  return address === null ? 0 : read.i32(address, 0)
}

/** Where bytes lie, for a struct that points to them: keep them referenced until the call is over. */
export function addressOf(bytes: NodeJS.TypedArray): bigint {
  return BigInt(ptr(bytes))
}

/** The C library's words for an error number: "No such file or directory". */
export function errorText(number: number): string {
  return String(libc().strerror(number) ?? "unknown error")
}
