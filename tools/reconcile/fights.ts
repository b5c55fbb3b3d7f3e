/** What is removed so often in this time is left. */
const REMOVALS = 3
const WINDOW_MS = 60_000
/** How long it is left at first, and at most: twice as long each time. */
const [PAUSE_MS, LONGEST_PAUSE_MS] = [60_000, 3_600_000]

interface Item {
  /** When it was made again. */
  times: number[]
  /** Until when it is left. */
  until: number
  pauseMs: number
}

/** What others remove again and again: after the third time in a minute it is left for a while. */
export class Fights {
  readonly #items = new Map<string, Item>()

  /** Whether something may not be made again now, should it be gone. */
  isOver(what: string, now: number): boolean {
    const item = this.#items.get(what)
    if (!item) return false
    return now < item.until || item.times.filter((time) => time > now - WINDOW_MS).length >= REMOVALS - 1
  }

  /** All of which that is so. */
  over(now: number): string[] {
    return [...this.#items.keys()].filter((what) => this.isOver(what, now))
  }

  /** Leaves what is gone once more. */
  leave(what: string, now: number): void {
    const item = this.#items.get(what)
    if (!item || now < item.until) return
    item.until = now + item.pauseMs
    item.pauseMs = Math.min(2 * item.pauseMs, LONGEST_PAUSE_MS)
    item.times = []
  }

  /**
   * Notes that something was made again by a look that began at `since`, unless another one beside it has noted it since: that was the same
   * loss. What has held for an hour is forgiven.
   */
  note(what: string, now: number, since = now): void {
    if ((this.#items.get(what)?.times.at(-1) ?? Number.NEGATIVE_INFINITY) > since) return
    for (const [name, { times, until }] of this.#items)
      if (Math.max(times.at(-1) ?? 0, until) < now - LONGEST_PAUSE_MS) this.#items.delete(name)
    const item = this.#items.get(what) ?? { times: [], until: 0, pauseMs: PAUSE_MS }
    item.times = [...item.times, now].slice(1 - REMOVALS)
    this.#items.set(what, item)
  }

  /** When the first of what is left may be tried again; undefined when nothing is left. */
  nextTry(now: number): number | undefined {
    const times = [...this.#items.values()].flatMap(({ until }) => (until > now ? [until] : []))
    return times.length === 0 ? undefined : Math.min(...times)
  }
}
