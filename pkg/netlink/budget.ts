import { monotonicMs } from "../engine/mod.ts"
import { processorShare } from "../libc/mod.ts"
import { NetlinkError } from "./message.ts"

/** The time limit of one plugin call for work on objects of a container, such as its links or routes. */
const LIMIT_MS = 1000
/** The share of the remaining time that one of several containers may use, so that time remains for the others. */
const SHARE = 1 / 4
/** Multiples of the limit: `list` for reading a list; `clock`, by the clock, for all work on a busy machine. */
const AT_MOST = { list: 5, clock: 30 } as const
/** The number of steps that are always allowed, however slow the machine is. An ordinary container needs no more. */
const FREE_STEPS = { call: 32, share: 4 } as const

/**
 * The time limit of a plugin call for work whose amount a container controls: its links, addresses, routes, rules. Only
 * time spent on this work counts, not a slow disk or a DHCP server. The kernel does the unfinished work when it deletes
 * the namespace.
 *
 * On a busy machine the work takes longer by the clock, but needs no more of the kernel's time. Beyond the limit, the
 * time counted is the clock's time multiplied by the thread's share of the processor: the time it ran, divided by the
 * time it ran or waited to run. This estimates the time on an idle machine, including the kernel's waits.
 */
export class Budget {
  #leftMs: number
  #freeSteps: number
  #since: number | undefined
  /** Whether this is the budget of one of several containers, so that the others wait for the rest of the time. */
  #isShare = false
  readonly #limitMs: number
  readonly #clock: () => number
  readonly #processorShare: () => number

  constructor(
    limitMs: number = LIMIT_MS,
    freeSteps: number = FREE_STEPS.call,
    clock: () => number = monotonicMs,
    share: () => number = processorShare,
  ) {
    this.#limitMs = limitMs
    this.#leftMs = limitMs
    this.#freeSteps = freeSteps
    this.#clock = clock
    this.#processorShare = share
  }

  /** Calls `work` and counts its time. The time of a nested call is counted once. */
  spend<T>(work: () => T): T {
    if (this.#since !== undefined) return work()
    this.#since = this.#clock()
    try {
      return work()
    } finally {
      this.#leftMs = this.#left()
      this.#since = undefined
    }
  }

  /**
   * Must be called before each step of work whose amount a container controls, such as one of many requests. Throws
   * `NetlinkError`, `ETIME`, if no time is left; `what` names the work in the error. The share of one of several
   * containers is measured by the clock alone.
   */
  step(what: string): void {
    this.#take(what, 1)
  }

  /** Like `step`, before each datagram of a list. The limit is five times as long, enough for 100,000 routes. */
  stepOfList(what: string): void {
    this.#take(what, AT_MOST.list)
  }

  #take(what: string, factor: number): void {
    if (this.#freeSteps-- > 0 || this.#left() > 0) return
    const spent = this.#limitMs - this.#left()
    const isOver = this.#isShare || spent >= this.#limitMs * AT_MOST.clock
    if (isOver || spent * this.#processorShare() >= this.#limitMs * factor)
      throw new NetlinkError(what, "ETIME", "the container's list is too long")
  }

  /** Calls `work` for one of several containers, with a budget of a share of the remaining time. */
  share<T>(work: (part: Budget) => T): T {
    return this.spend(() => {
      const part = new Budget(this.#left() * SHARE, FREE_STEPS.share, this.#clock, this.#processorShare)
      part.#isShare = true
      return part.spend(() => work(part))
    })
  }

  #left(): number {
    return this.#leftMs - (this.#since === undefined ? 0 : this.#clock() - this.#since)
  }
}
