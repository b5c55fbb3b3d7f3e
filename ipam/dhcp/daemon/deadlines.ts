/** A min-heap of deadlines. An item that was added with several deadlines is returned once for each of them. */
export class Deadlines<T> {
  readonly #entries: { readonly at: number; readonly item: T }[] = []

  add(at: number, item: T): void {
    const entries = this.#entries
    entries.push({ at, item })
    let child = entries.length - 1
    while (child > 0) {
      const parent = (child - 1) >> 1
      if (this.#time(parent) <= this.#time(child)) break
      this.#swap(parent, child)
      child = parent
    }
  }

  /** The earliest deadline; undefined if none exists. */
  get next(): number | undefined {
    return this.#entries[0]?.at
  }

  get size(): number {
    return this.#entries.length
  }

  /** Removes and returns an item whose deadline has passed, or returns undefined if none exists. */
  take(now: number): T | undefined {
    const entries = this.#entries
    const [first] = entries
    if (!first || first.at > now) return undefined
    const last = entries.pop()
    if (last && entries.length > 0) {
      entries[0] = last
      this.#sink()
    }
    return first.item
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

export function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}
