import { monotonicMs } from "../engine/mod.ts"
import { NetlinkError } from "./message.ts"

/** How long a call works on what a container can multiply, all in all. */
const LIMIT_MS = 1000
/** How much of what is left one of several containers may take: the next ones have something, however many are crowded. */
const SHARE = 1 / 4
/** Steps that are taken in any case, on a machine that is so busy that each takes long: what an ordinary container needs. */
const FREE_STEPS = { call: 32, share: 4 } as const

/**
 * The time that a call has for what a container can multiply: its links, addresses, routes, rules. Only the time spent on these
 * counts, so that a slow disk or a DHCP server takes nothing of it. What is not done when it is over goes with the namespace.
 */
export class Budget {
  #leftMs: number
  #freeSteps: number
  #since: number | undefined
  readonly #clock: () => number

  constructor(limitMs: number = LIMIT_MS, freeSteps: number = FREE_STEPS.call, clock: () => number = monotonicMs) {
    this.#leftMs = limitMs
    this.#freeSteps = freeSteps
    this.#clock = clock
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
    throw new NetlinkError(what, "ETIME", "the container has too much of it")
  }

  /** Does the work for one of several containers, which has a part of what is left. */
  share<T>(work: (part: Budget) => T): T {
    return this.spend(() => {
      const part = new Budget(this.#left() * SHARE, FREE_STEPS.share, this.#clock)
      return part.spend(() => work(part))
    })
  }

  #left(): number {
    return this.#leftMs - (this.#since === undefined ? 0 : this.#clock() - this.#since)
  }
}
