import { ptr } from "bun:ffi"
import { call, libc } from "./bun-calls.ts"
import {
  attachFilter,
  changeSignalMask,
  ioctlIfreq,
  ioctlWinsize,
  pidfdOpen,
  poll,
  sendDescriptors,
  sha256,
  signalFd,
} from "./bun-structs.ts"
import { bytesOf, type CallName, callNames, EINVAL, integer, rawBytes, text } from "./calls.ts"
import type { Engine, ExactJson, Exhaustion, TypedArray } from "./engine.ts"
import { environment, loopEngine, textEngine, textsOf } from "./web.ts"

export { decodeBase64, encodeBase64 } from "./web.ts"

/** Returns the command line without Bun's own arguments, which precede the program's. */
function ownArguments(commandLine: readonly string[]): string[] {
  return commandLine.slice(commandLine.length - (process.argv.length - 2))
}

const systemCalls = Object.fromEntries(
  callNames.map((name) => [name, (...values: unknown[]) => call(name, ...values)]),
) as unknown as Pick<Engine, CallName>

/** The engine interface on Bun: for the tests, for `bun plugins/bridge/main.ts` and for `cni-agent`. */
export const engine: Engine = {
  ...systemCalls,
  ioctlIfreq,
  ioctlWinsize,
  sendDescriptors,
  poll,
  startProcess,
  pidfd_open: pidfdOpen,
  attachFilter,
  rt_sigprocmask: changeSignalMask,
  signalfd4: signalFd,
  collectGarbage: () => void Bun.gc(true),
  ...textEngine,
  ...loopEngine,
  sha256,
  environment,
  arguments: () => [process.argv0, ...ownArguments(textsOf("/proc/self/cmdline"))],
  exit: (status) => process.exit(integer(status, 0, 255)),
}

/** Bun's own JSON, which keeps the digits of numbers. */
export const json = JSON as unknown as ExactJson

/** Returns the resource that has run out, if the error has this meaning. */
export function exhaustion(error: unknown): Exhaustion | undefined {
  if (!(error instanceof RangeError)) return undefined
  if (error.message === "Out of memory") return "memory"
  return error.message === "Maximum call stack size exceeded." ? "stack" : undefined
}

const root = new URL("../../", import.meta.url).pathname

/** Returns undefined, because Bun's stack traces name source files already. */
export function locate(file: string, line: number, _column: number): string | undefined {
  return file.startsWith(root) && !file.includes("node_modules") ? `${file.slice(root.length)}:${line}` : undefined
}

const SIGCHLD = 17
const SIG_DFL = null
const POSIX_SPAWN_SETSIGDEF = 4
const POSIX_SPAWN_SETSIGMASK = 8
const POSIX_SPAWN_SETSID = 0x80

/** Starts a program by posix_spawn(3), which also returns errors of the child process. */
export function startProcess(
  path: string,
  argv: readonly string[],
  environment: readonly string[],
  directory: string | null,
  descriptors: TypedArray,
  ownSession: number,
): number {
  const kept: Uint8Array[] = []
  const address = (value: unknown) => {
    const bytes = text(value)
    kept.push(bytes)
    return BigInt(ptr(bytes))
  }
  const list = (values: readonly string[]) => {
    if (!Array.isArray(values)) throw new TypeError("expected an array of strings")
    return new BigUint64Array([...Array.from(values, address), 0n])
  }
  const [program, names, variables] = [address(path), list(argv), list(environment)]
  const cwd = directory === null ? undefined : address(directory)
  const fds = bytesOf(descriptors)
  if (fds.byteLength !== 12) throw new RangeError("expected three descriptors")
  const session = integer(ownSession, 0, 1) * POSIX_SPAWN_SETSID
  const numbers = [...new Int32Array(rawBytes(fds).slice().buffer)]
  if (numbers.some((fd) => fd >= 0 && fd < 3)) return -EINVAL
  if (kept.some((bytes) => bytes.indexOf(0) !== bytes.length - 1)) return -EINVAL

  const c = libc()
  c.signal?.(SIGCHLD, SIG_DFL) // if the parent process ignores SIGCHLD, exit codes would be lost
  // posix_spawn_file_actions_t, posix_spawnattr_t and sigset_t: each array is at least as large as in any C library.
  const [actions, attributes, signals] = [new Uint8Array(512), new Uint8Array(512), new Uint8Array(128)]
  const pid = new Int32Array(1)
  const pinned = [kept, names, variables] // the kernel gets their addresses, so the arrays must not be freed
  const steps = [
    c.posix_spawn_file_actions_init?.(ptr(actions)),
    ...numbers.map((fd, at) => c.posix_spawn_file_actions_adddup2?.(ptr(actions), fd, at)),
    c.posix_spawn_file_actions_addclosefrom_np?.(ptr(actions), 3),
    cwd === undefined ? 0 : c.posix_spawn_file_actions_addchdir_np?.(ptr(actions), Number(cwd)),
    c.posix_spawnattr_init?.(ptr(attributes)),
    c.posix_spawnattr_setsigmask?.(ptr(attributes), ptr(signals)),
    c.posix_spawnattr_setsigdefault?.(ptr(attributes), ptr(signals.slice().fill(0xff))),
    c.posix_spawnattr_setflags?.(ptr(attributes), POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | session),
  ].map(Number)
  const error =
    steps.find((failure) => failure !== 0) ??
    Number(c.posix_spawn?.(ptr(pid), Number(program), ptr(actions), ptr(attributes), ptr(names), ptr(variables)))
  c.posix_spawn_file_actions_destroy?.(ptr(actions))
  return error === 0 && pinned.length > 0 ? (pid[0] ?? 0) : -error
}
