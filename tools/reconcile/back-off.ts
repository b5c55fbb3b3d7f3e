/** A check starts after a pause of `QUIET_MS` without losses, at the latest `BURST_MS` after the first loss. */
const [QUIET_MS, BURST_MS] = [20, 200]
/** The longest pause between two checks for the same reason. */
const LONGEST_PAUSE_MS = 30_000
/** The time without a check for a reason after which its next check has no extra pause, in milliseconds. */
const CALM_MS = 60_000

/** Schedules checks soon after a loss, with growing pauses if losses for one reason continue. Never gives up. */
export class BackOff {
  /** The times of losses since the last check, by reason. */
  readonly #pending = new Map<string, { readonly since: number; last: number }>()
  /** The times of the last checks, by reason. */
  readonly #checks = new Map<string, { at: number; pauseMs: number }>()

  /** Records a loss. */
  lose(reason: string, now: number): void {
    const pending = this.#pending.get(reason)
    if (pending) pending.last = now
    else this.#pending.set(reason, { since: now, last: now })
  }

  /** Returns the next check's time and reason, and the first loss's time. Returns undefined if nothing was lost. */
  next(): { readonly reason: string; readonly at: number; readonly since: number } | undefined {
    const dues = [...this.#pending].map(([reason, { since, last }]) => {
      const burst = Math.min(last + QUIET_MS, since + BURST_MS)
      const { at, pauseMs } = this.#checks.get(reason) ?? { at: 0, pauseMs: 0 }
      return { reason, since, at: since - at > CALM_MS ? burst : Math.max(burst, at + pauseMs) }
    })
    return dues.sort((a, b) => a.at - b.at)[0]
  }

  /** Forgets losses for a reason that turned out not to be losses. */
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
