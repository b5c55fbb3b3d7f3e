import { ptr } from "bun:ffi"
import { bytesOf, libc, rawBytes, text } from "./bun-calls.ts"
import type { TypedArray } from "./engine.ts"

const EINVAL = 22
const SIGCHLD = 17
const SIG_DFL = null
const POSIX_SPAWN_SETSIGDEF = 4
const POSIX_SPAWN_SETSIGMASK = 8

/** Starts a program by posix_spawn(3), which tells errors of the child as well. */
export function startProcess(
  path: string,
  argv: readonly string[],
  environment: readonly string[],
  directory: string | null,
  descriptors: TypedArray,
): number {
  const kept: Uint8Array[] = []
  const address = (value: unknown) => {
    const bytes = text(value)
    kept.push(bytes)
    return BigInt(ptr(bytes))
  }
  const list = (values: readonly string[]) => {
    if (!Array.isArray(values)) throw new TypeError("expected an array of texts")
    return new BigUint64Array([...Array.from(values, address), 0n])
  }
  const [program, names, variables] = [address(path), list(argv), list(environment)]
  const cwd = directory === null ? undefined : address(directory)
  const fds = bytesOf(descriptors)
  if (fds.byteLength !== 12) throw new RangeError("expected three descriptors")
  if (kept.some((bytes) => bytes.indexOf(0) !== bytes.length - 1)) return -EINVAL

  const c = libc()
  c.signal?.(SIGCHLD, SIG_DFL) // ignored, as our caller may have left it, it would cost us exit codes
  // posix_spawn_file_actions_t, posix_spawnattr_t and sigset_t: larger than on any C library
  const [actions, attributes, signals] = [new Uint8Array(512), new Uint8Array(512), new Uint8Array(128)]
  const numbers = [...new Int32Array(rawBytes(fds).slice().buffer)]
  const pid = new Int32Array(1)
  const told = [kept, names, variables] // what the kernel is told the address of must live
  const steps = [
    c.posix_spawn_file_actions_init?.(ptr(actions)),
    ...numbers.map((fd, at) => c.posix_spawn_file_actions_adddup2?.(ptr(actions), fd, at)),
    c.posix_spawn_file_actions_addclosefrom_np?.(ptr(actions), 3),
    cwd === undefined ? 0 : c.posix_spawn_file_actions_addchdir_np?.(ptr(actions), Number(cwd)),
    c.posix_spawnattr_init?.(ptr(attributes)),
    c.posix_spawnattr_setsigmask?.(ptr(attributes), ptr(signals)),
    c.posix_spawnattr_setsigdefault?.(ptr(attributes), ptr(signals.slice().fill(0xff))),
    c.posix_spawnattr_setflags?.(ptr(attributes), POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK),
  ].map(Number)
  const error =
    steps.find((failure) => failure !== 0) ??
    Number(c.posix_spawn?.(ptr(pid), Number(program), ptr(actions), ptr(attributes), ptr(names), ptr(variables)))
  c.posix_spawn_file_actions_destroy?.(ptr(actions))
  return error === 0 && told.length > 0 ? (pid[0] ?? 0) : -error
}
