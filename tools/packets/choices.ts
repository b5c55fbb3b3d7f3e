/** Makes the kernel's random choices. The list of choices identifies a path, so that it can be evaluated again. */
export class Choices {
  readonly #wanted: readonly number[]
  readonly taken: { readonly chosen: number; readonly count: number }[] = []

  constructor(wanted: readonly number[] = []) {
    this.#wanted = wanted
  }

  /** Chooses one of `count` alternatives, 0 to count - 1. */
  take(count: number): number {
    const chosen = this.#wanted[this.taken.length] ?? 0
    this.taken.push({ chosen, count })
    return chosen
  }

  /**
   * Returns the next path's choices: the last one with an untried alternative changes. Returns undefined at the end.
   */
  next(): readonly number[] | undefined {
    for (let at = this.taken.length - 1; at >= 0; at--) {
      const { chosen, count } = this.taken[at] ?? { chosen: 0, count: 0 }
      if (chosen + 1 < count) return [...this.taken.slice(0, at).map((each) => each.chosen), chosen + 1]
    }
    return undefined
  }
}

/** Evaluates each combination of choices once, but at most `most`. Returns the results, and whether these are all. */
export function explore<T>(walk: (choices: Choices) => T, most: number): { found: T[]; isAll: boolean } {
  const found: T[] = []
  let wanted: readonly number[] | undefined = []
  while (wanted !== undefined && found.length < most) {
    const choices = new Choices(wanted)
    found.push(walk(choices))
    wanted = choices.next()
  }
  return { found, isAll: wanted === undefined }
}
