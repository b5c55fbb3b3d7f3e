/** Losses that follow one another faster than `QUIET_MS` are one burst; it is answered after `BURST_MS` at the latest. */
const [QUIET_MS, BURST_MS] = [20, 200]
/** The longest pause between two checks for the same reason. */
const LONGEST_PAUSE_MS = 30_000
/** After so long without a check for a reason the next one does not wait. */
const CALM_MS = 60_000

/** When to check: soon after a loss, and later and later where losses for the same reason go on. Nothing is given up. */
export class BackOff {
  /** Losses without an answer, by their reason. */
  readonly #pending = new Map<string, { readonly since: number; last: number }>()
  /** The last checks, by their reason. */
  readonly #checks = new Map<string, { at: number; pauseMs: number }>()

  /** Notes a loss. */
  lose(reason: string, now: number): void {
    const pending = this.#pending.get(reason)
    if (pending) pending.last = now
    else this.#pending.set(reason, { since: now, last: now })
  }

  /** Returns when the next check is due, why, and since when something is lost; undefined when nothing is. */
  next(): { readonly reason: string; readonly at: number; readonly since: number } | undefined {
    const dues = [...this.#pending].map(([reason, { since, last }]) => {
      const burst = Math.min(last + QUIET_MS, since + BURST_MS)
      const { at, pauseMs } = this.#checks.get(reason) ?? { at: 0, pauseMs: 0 }
      return { reason, since, at: since - at > CALM_MS ? burst : Math.max(burst, at + pauseMs) }
    })
    return dues.sort((a, b) => a.at - b.at)[0]
  }

  /** Forgets losses for a reason: they were none. */
  dismiss(reason: string): void {
    this.#pending.delete(reason)
  }

  /** Notes that a check has answered all losses until now. */
  checked(now: number): void {
    for (const [reason, { since }] of this.#pending) {
      const { at, pauseMs } = this.#checks.get(reason) ?? { at: 0, pauseMs: 0 }
      const former = since - at > CALM_MS || pauseMs === 0 ? QUIET_MS : pauseMs
      this.#checks.set(reason, { at: now, pauseMs: Math.min(2 * former, LONGEST_PAUSE_MS) })
    }
    this.#pending.clear()
  }
}
