import { monotonicMs } from "../engine/mod.ts"
import { NetlinkError } from "./message.ts"

/** How long a call works on what a container can multiply, all in all. */
const LIMIT_MS = 1000
/** How much of what is left one of several containers may take: the next ones have something, however many are crowded. */
const SHARE = 1 / 4

/**
 * The time that a call has for what a container can multiply: its links, addresses, routes, rules. Only the time spent on these
 * counts, so that a busy host, or a DHCP server, takes nothing of it. What is not done when it is over goes with the namespace.
 */
export class Budget {
  #leftMs: number
  #since: number | undefined

  constructor(limitMs: number = LIMIT_MS) {
    this.#leftMs = limitMs
  }

  /** How much is left, now. */
  get leftMs(): number {
    return this.#leftMs - (this.#since === undefined ? 0 : monotonicMs() - this.#since)
  }

  /** Does work whose time counts; work within such work counts once. */
  spend<T>(work: () => T): T {
    if (this.#since !== undefined) return work()
    this.#since = monotonicMs()
    try {
      return work()
    } finally {
      this.#leftMs = this.leftMs
      this.#since = undefined
    }
  }

  /** Throws `NetlinkError`, `ETIME`, when nothing is left; `what` is what is not gone on with. */
  requireTime(what: string): void {
    if (this.leftMs <= 0) throw new NetlinkError(what, "ETIME", "there is too much of it in the container")
  }

  /** Does the work for one of several containers, which has a part of what is left. */
  share<T>(work: (part: Budget) => T): T {
    return this.spend(() => {
      const part = new Budget(this.leftMs * SHARE)
      return part.spend(() => work(part))
    })
  }
}
