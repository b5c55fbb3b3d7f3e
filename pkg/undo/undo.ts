interface Step {
  what: string
  revert: () => void
}

/**
 * The changes made to the host so far, each with its reverse. Leaving the scope takes them back, the last one first,
 * unless `keep()` was reached: ADD is all or nothing.
 */
export class Undo implements Disposable {
  readonly #log: (line: string) => void
  readonly #steps: Step[] = []

  constructor(log: (line: string) => void) {
    this.#log = log
  }

  /**
   * Makes one change and remembers how to take it back; answers what the change answered, which `revert` is given too.
   * A change that throws has left nothing, so its reverse is not remembered.
   */
  step<T>(what: string, apply: () => T, revert: (value: T) => void): T {
    const value = apply()
    this.#steps.push({ what, revert: () => revert(value) })
    return value
  }

  /** Remembers how to take back a change that has just been made. */
  defer(what: string, revert: () => void): void {
    this.#steps.push({ what, revert })
  }

  /** Success: nothing is taken back any more. */
  keep(): void {
    this.#steps.length = 0
  }

  /** Takes everything back. Never throws: it would bury the error that matters. A reverse that fails is logged. */
  [Symbol.dispose](): void {
    for (const { what, revert } of this.#steps.splice(0).reverse()) {
      try {
        revert()
      } catch (error) {
        this.#log(`Cannot undo "${what}": ${error instanceof Error ? error.message : String(error)}`)
      }
    }
  }
}
