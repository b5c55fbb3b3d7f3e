import { readFileSync } from "node:fs"
import { bytesOf, type CallName, call, integer, pidfdOpen, poll, rawBytes, sendDescriptors } from "./bun-calls.ts"
import { startProcess } from "./bun-spawn.ts"
import type { Engine, Exhaustion } from "./engine.ts"

/** A text of UTF-8, as `Engine.decodeUtf8`. */
const decode = (bytes: Uint8Array) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)

/** The texts of a file of proc(5), each with a NUL at its end. */
function textsOf(file: string): string[] {
  const bytes = readFileSync(file)
  const texts: string[] = []
  for (let start = 0, end = 0; end !== -1 && start < bytes.length; start = end + 1) {
    end = bytes.indexOf(0, start)
    texts.push(decode(bytes.subarray(start, end === -1 ? bytes.length : end)))
  }
  return texts
}

/** A system call whose name in the C library is its own. */
const same =
  (name: CallName) =>
  (...values: unknown[]) =>
    call(name, ...values)

/** The door on Bun: for the tests, for `bun plugins/bridge/main.ts` and for the tool `cni`. */
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
  decodeUtf8: (bytes) => decode(rawBytes(bytesOf(bytes))),
  decodeLatin1: (bytes) => Buffer.from(rawBytes(bytesOf(bytes))).toString("latin1"),
  monotonicMs: () => performance.now(),
  // As the process got it; process.env is without what is said twice, and has more where the directory has an .env file.
  environment: () => textsOf("/proc/self/environ"),
  arguments: () => [process.argv0, ...textsOf("/proc/self/cmdline").slice(2 - process.argv.length)],
  exit: (status) => process.exit(integer(status, 0, 255)),
}

/** What the engine has run out of, if that is what it throws. */
export function exhaustion(error: unknown): Exhaustion | undefined {
  if (!(error instanceof RangeError)) return undefined
  if (error.message === "Out of memory") return "memory"
  return error.message === "Maximum call stack size exceeded." ? "stack" : undefined
}

const root = new URL("../../", import.meta.url).pathname

/** The same for Bun, whose stack traces name source files by themselves. */
export function locate(file: string, line: number, _column: number): string | undefined {
  return file.startsWith(root) && !file.includes("node_modules") ? `${file.slice(root.length)}:${line}` : undefined
}
