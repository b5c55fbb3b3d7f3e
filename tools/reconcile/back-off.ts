/** Losses that follow one another within `QUIET_MS` are one burst. A check follows after `BURST_MS` at the latest. */
const [QUIET_MS, BURST_MS] = [20, 200]
/** The longest pause between two checks for the same reason. */
const LONGEST_PAUSE_MS = 30_000
/** After this time without a check for a reason, the next one does not wait. */
const CALM_MS = 60_000

/**
 * Schedules checks: soon after a loss, and with growing pauses if losses for the same reason continue. Never gives up.
 */
export class BackOff {
  /** Losses without a check, by reason. */
  readonly #pending = new Map<string, { readonly since: number; last: number }>()
  /** The last checks, by reason. */
  readonly #checks = new Map<string, { at: number; pauseMs: number }>()

  /** Records a loss. */
  lose(reason: string, now: number): void {
    const pending = this.#pending.get(reason)
    if (pending) pending.last = now
    else this.#pending.set(reason, { since: now, last: now })
  }

  /**
   * Returns when the next check is due, its reason, and the time of the first loss. Returns undefined without a loss.
   */
  next(): { readonly reason: string; readonly at: number; readonly since: number } | undefined {
    const dues = [...this.#pending].map(([reason, { since, last }]) => {
      const burst = Math.min(last + QUIET_MS, since + BURST_MS)
      const { at, pauseMs } = this.#checks.get(reason) ?? { at: 0, pauseMs: 0 }
      return { reason, since, at: since - at > CALM_MS ? burst : Math.max(burst, at + pauseMs) }
    })
    return dues.sort((a, b) => a.at - b.at)[0]
  }

  /** Forgets losses for a reason that were not losses. */
  dismiss(reason: string): void {
    this.#pending.delete(reason)
  }

  /** Records that a check covered all losses until now. */
  checked(now: number): void {
    for (const [reason, { since }] of this.#pending) {
      const { at, pauseMs } = this.#checks.get(reason) ?? { at: 0, pauseMs: 0 }
      const former = since - at > CALM_MS || pauseMs === 0 ? QUIET_MS : pauseMs
      this.#checks.set(reason, { at: now, pauseMs: Math.min(2 * former, LONGEST_PAUSE_MS) })
    }
    this.#pending.clear()
  }
}
