import { bootMs, readTextFile } from "../../pkg/libc/mod.ts"
import type { Clock } from "./surroundings.ts"

/** The clock of this machine: CLOCK_BOOTTIME, its boot id, and timers that a signal ends. */
export function hostClock(): Clock {
  return {
    bootMs,
    bootId: readTextFile("/proc/sys/kernel/random/boot_id").trim(),
    async sleep(ms, signal) {
      if (signal.aborted) return
      const { promise, resolve } = Promise.withResolvers<void>()
      const end = () => resolve()
      const timer = setTimeout(end, ms)
      signal.addEventListener("abort", end)
      await promise
      signal.removeEventListener("abort", end)
      clearTimeout(timer)
    },
  }
}
