import { engine } from "../engine/mod.ts"
import { type Fd, FileDescriptor, Open } from "./descriptor.ts"
import { check } from "./errno.ts"

/** <bits/signum-generic.h> */
export const Signal = { Interrupt: 2, Terminate: 15 } as const
const SIG_BLOCK = 0
const SIG_UNBLOCK = 1
/** The size in bytes of a set of signals in the kernel. */
const SET_SIZE = 8
/** <asm-generic/resource.h> */
const RLIMIT_NOFILE = 7

/** Blocks these signals and returns a descriptor from which they can be read, signalfd(2). Throws `SyscallError`. */
export function watchSignals(...signals: number[]): FileDescriptor {
  const set = setOf(signals)
  check("rt_sigprocmask", "", () => engine.rt_sigprocmask(SIG_BLOCK, set, SET_SIZE))
  const flags = Open.NonBlocking | Open.CloseOnExec
  return new FileDescriptor(check("signalfd4", "", () => engine.signalfd4(-1, set, SET_SIZE, flags)) as Fd)
}

/** Unblocks these signals. Pending ones take their default effect at once. Throws `SyscallError`. */
export function unwatchSignals(...signals: number[]): void {
  check("rt_sigprocmask", "", () => engine.rt_sigprocmask(SIG_UNBLOCK, setOf(signals), SET_SIZE))
}

function setOf(signals: readonly number[]): BigUint64Array {
  return new BigUint64Array([signals.reduce((bits, signal) => bits | (1n << BigInt(signal - 1)), 0n)])
}

/**
 * Sets the soft limit of open descriptors to `limit`, and the hard limit to `bound`, like `ulimit -S` and `-H`. Throws
 * `EPERM` if the process may not raise the hard limit.
 */
export function setDescriptorLimit(limit: number, bound: number): void {
  const value = new BigUint64Array([BigInt(limit), BigInt(bound)]) // struct rlimit64
  check("prlimit64", "RLIMIT_NOFILE", () => engine.prlimit64(0, RLIMIT_NOFILE, value))
}

/** A descriptor, and the events of `Poll` to wait for. */
export interface PollRequest {
  readonly fd: Fd
  readonly events: number
}

/**
 * Waits until one of several descriptors is ready or broken, poll(2), for at most `timeoutMs`; forever if undefined.
 * Returns the events of each descriptor, 0 for a descriptor without events.
 */
export function pollAll(requests: readonly PollRequest[], timeoutMs: number | undefined): Uint16Array {
  const array = new Int32Array(2 * requests.length) // struct pollfd { int fd; short events, revents; }
  for (const [at, { fd, events }] of requests.entries()) {
    array[2 * at] = fd
    array[2 * at + 1] = events
  }
  const wait = timeoutMs === undefined ? -1 : Math.min(2 ** 31 - 1, Math.max(0, Math.ceil(timeoutMs)))
  check("poll", `${requests.length} descriptors`, () => engine.poll(array, wait))
  return new Uint16Array(requests.length).map((_, at) => (array[2 * at + 1] ?? 0) >>> 16)
}
