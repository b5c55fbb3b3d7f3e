/** A door that many may go through together, or one alone: first come, first served. */
export class Gate {
  /** Ends when all that came before have ended. */
  #last: Promise<unknown> = Promise.resolve()
  /** Those that are inside together since the last one that was alone. */
  #together: Promise<unknown>[] = []

  /** Runs `act` beside others that came by `together`. */
  together<T>(act: () => Promise<T>): Promise<T> {
    const done = this.#last.then(act)
    this.#together.push(done.catch(() => undefined))
    return done
  }

  /** Runs `act` when all that came before have ended; who comes later waits. */
  alone<T>(act: () => Promise<T>): Promise<T> {
    const done = Promise.all([this.#last, ...this.#together]).then(act)
    this.#together = []
    this.#last = done.catch(() => undefined)
    return done
  }
}
