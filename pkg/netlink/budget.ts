import { monotonicMs } from "../engine/mod.ts"
import { processMs } from "../libc/mod.ts"
import { NetlinkError } from "./message.ts"

/** The total time of a call for objects that a container can multiply. */
const LIMIT_MS = 1000
/** The share of the remaining time that one of several containers may take, so that the next ones have some. */
const SHARE = 1 / 4
/** The processor's time that a list may have beyond the limit, and its time on the clock, as multiples of the limit. */
const LIST = { processor: 4, clock: 30 } as const
/** Steps that are taken in any case, on a machine that is so busy that each takes long: what an ordinary container needs. */
const FREE_STEPS = { call: 32, share: 4 } as const

/**
 * The time that a call has for what a container can multiply: its links, addresses, routes, rules. Only the time spent on these
 * counts, so that a slow disk or a DHCP server takes nothing of it. Work that is not done by then is left to the namespace's end.
 */
export class Budget {
  #leftMs: number
  #freeSteps: number
  #since: number | undefined
  /** Whether other containers wait for what this one leaves. */
  #isShare = false
  /** The process' time on the processor when the limit was reached. */
  #processMsAtLimit: number | undefined
  readonly #limitMs: number
  readonly #clock: () => number
  readonly #processClock: () => number

  constructor(
    limitMs: number = LIMIT_MS,
    freeSteps: number = FREE_STEPS.call,
    clock: () => number = monotonicMs,
    processClock: () => number = processMs,
  ) {
    this.#limitMs = limitMs
    this.#leftMs = limitMs
    this.#freeSteps = freeSteps
    this.#clock = clock
    this.#processClock = processClock
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
   * To be called before each step of work whose length a container decides: a datagram of a list, a request of many. Throws
   * `NetlinkError`, `ETIME`, when no time is left; `what` is what is not gone on with.
   */
  step(what: string): void {
    if (this.#freeSteps-- > 0 || this.#left() > 0) return
    this.#refuse(what)
  }

  /**
   * Likewise before each datagram of a list, which waits for nothing but the processor. Beyond the limit it goes on until it has had
   * the processor for four times the limit: a routing table of 100,000 is read, also beside 40 other programs for two processors. One of several containers
   * does not get more.
   */
  stepOfList(what: string): void {
    if (this.#freeSteps-- > 0 || this.#left() > 0) return
    if (this.#isShare) this.#refuse(what)
    this.#processMsAtLimit ??= this.#processClock()
    const isBusyElsewhere = this.#processClock() - this.#processMsAtLimit < this.#limitMs * LIST.processor
    if (isBusyElsewhere && this.#left() > this.#limitMs * (1 - LIST.clock)) return
    this.#refuse(what)
  }

  #refuse(what: string): never {
    throw new NetlinkError(what, "ETIME", "the container has too much of it")
  }

  /** Does the work for one of several containers, which has a part of what is left. */
  share<T>(work: (part: Budget) => T): T {
    return this.spend(() => {
      const part = new Budget(this.#left() * SHARE, FREE_STEPS.share, this.#clock, this.#processClock)
      part.#isShare = true
      return part.spend(() => work(part))
    })
  }

  #left(): number {
    return this.#leftMs - (this.#since === undefined ? 0 : this.#clock() - this.#since)
  }
}
