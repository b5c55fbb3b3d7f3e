/**
 * When things are due, the soonest first: a heap. A thing may be put in again with another time; the earlier entry then comes up
 * as well, and it is for the caller to see that nothing is due.
 */
export class Timers<T> {
  readonly #entries: { readonly at: number; readonly what: T }[] = []

  add(at: number, what: T): void {
    const entries = this.#entries
    entries.push({ at, what })
    let child = entries.length - 1
    while (child > 0) {
      const parent = (child - 1) >> 1
      if (this.#time(parent) <= this.#time(child)) break
      this.#swap(parent, child)
      child = parent
    }
  }

  /** When the next thing is due; undefined for never. */
  get next(): number | undefined {
    return this.#entries[0]?.at
  }

  /** How many entries there are. */
  get size(): number {
    return this.#entries.length
  }

  /** Takes out what is due by now; undefined when nothing is. */
  take(now: number): T | undefined {
    const entries = this.#entries
    const [first] = entries
    if (!first || first.at > now) return undefined
    const last = entries.pop()
    if (last && entries.length > 0) {
      entries[0] = last
      this.#sink()
    }
    return first.what
  }

  #sink(): void {
    for (let parent = 0; ; ) {
      let least = parent
      for (const child of [2 * parent + 1, 2 * parent + 2]) if (this.#time(child) < this.#time(least)) least = child
      if (least === parent) return
      this.#swap(parent, least)
      parent = least
    }
  }

  #time(at: number): number {
    return this.#entries[at]?.at ?? Number.POSITIVE_INFINITY
  }

  #swap(a: number, b: number): void {
    const [one, other] = [this.#entries[a], this.#entries[b]]
    if (!one || !other) return
    this.#entries[a] = other
    this.#entries[b] = one
  }
}

/** The soonest of some times; undefined when there is none. */
export function soonest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}
