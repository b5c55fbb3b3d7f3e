import { monotonicMs } from "../engine/mod.ts"
import { processorShare } from "../libc/mod.ts"
import { NetlinkError } from "./message.ts"

/** The total time of a call for objects that a container can multiply. */
const LIMIT_MS = 1000
/** The share of the remaining time that one of several containers may take, so that the next ones have some. */
const SHARE = 1 / 4
/** What a list may have, and what all may have by the clock on a machine that is busy with other programs, as multiples of the limit. */
const AT_MOST = { list: 5, clock: 30 } as const
/** Steps that are taken in any case, on a machine that is so busy that each takes long: what an ordinary container needs. */
const FREE_STEPS = { call: 32, share: 4 } as const

/**
 * The time limit of a call for work whose amount a container controls: its links, addresses, routes, rules. Only the
 * time spent on these counts, not a slow disk or a DHCP server. Work that is not done in time is left to the deletion
 * of the namespace.
 *
 * Beside other programs the work takes longer by the clock and no longer for the kernel. Beyond the limit its time is
 * that of the clock times the share of the processor that the thread had of what it wanted: the time that the same
 * takes on a quiet machine, with the kernel's waits.
 */
export class Budget {
  #leftMs: number
  #freeSteps: number
  #since: number | undefined
  /** Whether other containers wait for what this one leaves. */
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

  /** Does work whose time counts; work within such work counts once. */
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
   * Call it before each step of work whose amount a container controls, such as one of many requests. Throws
   * `NetlinkError`, `ETIME`, when no time is left; `what` names the work that is given up. One of several containers
   * has its part by the clock and no more.
   */
  step(what: string): void {
    this.#take(what, 1)
  }

  /** Likewise before each datagram of a list, which may take five times as long: a routing table of 100,000 is read. */
  stepOfList(what: string): void {
    this.#take(what, AT_MOST.list)
  }

  #take(what: string, factor: number): void {
    if (this.#freeSteps-- > 0 || this.#left() > 0) return
    const spent = this.#limitMs - this.#left()
    const isOver = this.#isShare || spent >= this.#limitMs * AT_MOST.clock
    if (isOver || spent * this.#processorShare() >= this.#limitMs * factor)
      throw new NetlinkError(what, "ETIME", "the container has too much of it")
  }

  /** Does the work for one of several containers, which has a part of what is left. */
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
