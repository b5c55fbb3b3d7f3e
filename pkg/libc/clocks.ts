import { engine } from "../engine/mod.ts"
import { type Fd, FileDescriptor, Open } from "./descriptor.ts"
import { check } from "./errno.ts"

/** <linux/time.h> */
const CLOCK_PROCESS_CPUTIME_ID = 2
const CLOCK_BOOTTIME = 7
/** <linux/timerfd.h> */
const TFD_TIMER_ABSTIME = 1
const NS_PER_MS = 1_000_000n

/** Milliseconds since this boot, whole ones, also those for which the machine was suspended: CLOCK_BOOTTIME. */
export function bootMs(): number {
  return readClock(CLOCK_BOOTTIME, "CLOCK_BOOTTIME")
}

/** Milliseconds that the process has had a processor: CLOCK_PROCESS_CPUTIME_ID. */
export function processMs(): number {
  return readClock(CLOCK_PROCESS_CPUTIME_ID, "CLOCK_PROCESS_CPUTIME_ID")
}

function readClock(clock: number, name: string): number {
  const time = new BigUint64Array(2) // struct timespec
  check("clock_gettime", name, () => engine.clock_gettime(clock, time))
  return Number((time[0] ?? 0n) * 1000n + (time[1] ?? 0n) / NS_PER_MS)
}

/**
 * A time of `bootMs` to wait for, timerfd_create(2). The time limits of poll(2) stand still while the machine is suspended; this
 * descriptor is readable as soon as it goes on, when its time came during the sleep.
 */
export class BootTimer extends FileDescriptor {
  #at: number | undefined

  /** Throws `SyscallError`. */
  constructor() {
    const flags = Open.NonBlocking | Open.CloseOnExec
    super(check("timerfd_create", "CLOCK_BOOTTIME", () => engine.timerfd_create(CLOCK_BOOTTIME, flags)) as Fd)
  }

  /** The descriptor is readable from `at` on, and not before; with undefined, never. Throws `SyscallError`. */
  set(at: number | undefined): void {
    if (at === this.#at && (at === undefined || at > bootMs())) return
    const ns = at === undefined ? 0n : BigInt(Math.max(1, Math.ceil(at))) * NS_PER_MS // 0 takes the time out
    const time = new BigUint64Array([0n, 0n, ns / 1_000_000_000n, ns % 1_000_000_000n]) // struct itimerspec
    check("timerfd_settime", "", () => engine.timerfd_settime(this.fd, TFD_TIMER_ABSTIME, time))
    this.#at = at
  }
}
