/** A generator of pseudorandom numbers (xorshift32) that are the same in each run. */
export class Chance {
  #state: number

  constructor(seed: number) {
    this.#state = seed | 1
  }

  below(limit: number): number {
    this.#state ^= this.#state << 13
    this.#state ^= this.#state >>> 17
    this.#state ^= this.#state << 5
    return (this.#state >>> 0) % limit
  }

  of<T>(values: readonly T[]): T {
    return values[this.below(values.length)] as T
  }
}
