import { engine } from "../engine/mod.ts"
import { type Fd, FileDescriptor, Open } from "./descriptor.ts"
import { check, SyscallError } from "./errno.ts"
import { readTextAtOnce } from "./files.ts"

/** <linux/time.h> */
const CLOCK_BOOTTIME = 7
/** <linux/timerfd.h> */
const TFD_TIMER_ABSTIME = 1
const NS_PER_MS = 1_000_000n

/** Returns the whole milliseconds since boot, including the time in suspend: CLOCK_BOOTTIME. */
export function bootMs(): number {
  const time = new BigUint64Array(2) // struct timespec
  check("clock_gettime", "CLOCK_BOOTTIME", () => engine.clock_gettime(CLOCK_BOOTTIME, time))
  return Number((time[0] ?? 0n) * 1000n + (time[1] ?? 0n) / NS_PER_MS)
}

/**
 * Returns the thread's share of the processor, above 0 and up to 1: the time it ran, divided by the time it ran or
 * waited to run, from `/proc/thread-self/schedstat`. A wait for the quota of the thread's cgroup counts as waiting.
 * Returns 1 if the kernel does not report the times (CONFIG_SCHED_INFO) or `/proc` is missing.
 */
export function processorShare(): number {
  try {
    return shareOf(readTextAtOnce("/proc/thread-self/schedstat", 128) ?? "")
  } catch (error) {
    if (error instanceof SyscallError) return 1
    throw error
  }
}

/** Returns the share from `schedstat`: nanoseconds that a thread ran, nanoseconds that it waited, turns; proc(5). */
export function shareOf(schedstat: string): number {
  const [ran = 0, waited = 0] = schedstat.split(" ").map(Number)
  return ran > 0 && waited >= 0 ? ran / (ran + waited) : 1
}

/**
 * A timer whose descriptor becomes readable at a time of `bootMs`, timerfd_create(2). It is also readable right after
 * resume if the time passed during suspend. The time limits of poll(2), in contrast, stop during suspend.
 */
export class BootTimer extends FileDescriptor {
  #at: number | undefined

  /** Creates a timer that is not set. Throws `SyscallError`. */
  constructor() {
    const flags = Open.NonBlocking | Open.CloseOnExec
    super(check("timerfd_create", "CLOCK_BOOTTIME", () => engine.timerfd_create(CLOCK_BOOTTIME, flags)) as Fd)
  }

  /** Sets the time at which the descriptor becomes readable. If undefined, it never does. Throws `SyscallError`. */
  set(at: number | undefined): void {
    if (at === this.#at && (at === undefined || at > bootMs())) return
    const ns = at === undefined ? 0n : BigInt(Math.max(1, Math.ceil(at))) * NS_PER_MS // 0 disarms the timer
    const time = new BigUint64Array([0n, 0n, ns / 1_000_000_000n, ns % 1_000_000_000n]) // struct itimerspec
    check("timerfd_settime", "", () => engine.timerfd_settime(this.fd, TFD_TIMER_ABSTIME, time))
    this.#at = at
  }
}
