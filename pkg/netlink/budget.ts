import { monotonicMs } from "../engine/mod.ts"
import { processorShare } from "../libc/mod.ts"
import { NetlinkError } from "./message.ts"

/** The time limit of a call for objects that a container can multiply. */
const LIMIT_MS = 1000
/** The share of the remaining time that one of several containers may use, so that some is left for the others. */
const SHARE = 1 / 4
/**
 * Limits for a list, and for everything by the clock on a machine that is busy with other programs, as multiples of the
 * limit.
 */
const AT_MOST = { list: 5, clock: 30 } as const
/** Steps that are always allowed, however slow the machine: an ordinary container needs no more. */
const FREE_STEPS = { call: 32, share: 4 } as const

/**
 * The time limit of a call for work whose amount a container controls: its links, addresses, routes, rules. Only time
 * spent on this work counts, not a slow disk or a DHCP server. Work that is not done in time is left to the deletion of
 * the namespace.
 *
 * On a busy machine the work takes longer by the clock, but not more of the kernel's time. Beyond the limit, the
 * counted time is the clock's time multiplied by the share of the processor that the thread got of the time it asked
 * for. This estimates the time on a quiet machine, including the kernel's waits.
 */
export class Budget {
  #leftMs: number
  #freeSteps: number
  #since: number | undefined
  /** Whether other containers wait for the rest of the time. */
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

  /** Does work whose time counts. Nested work counts once. */
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
   * `NetlinkError`, `ETIME`, if no time is left; `what` names the work. One of several containers is limited to its
   * share, by the clock.
   */
  step(what: string): void {
    this.#take(what, 1)
  }

  /**
   * Like `step`, before each datagram of a list, for which the limit is five times as long: a routing table of 100,000
   * routes is read.
   */
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

  /** Does the work for one of several containers within a share of the remaining time. */
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
