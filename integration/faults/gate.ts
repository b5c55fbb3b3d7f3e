/** A lock for many shared users or one exclusive user, in the order of requests. */
export class Gate {
  /** Resolves when all earlier users have ended. */
  #last: Promise<unknown> = Promise.resolve()
  /** The shared users since the last exclusive one. */
  #together: Promise<unknown>[] = []

  /** Runs `act` together with other shared users. */
  together<T>(act: () => Promise<T>): Promise<T> {
    const done = this.#last.then(act)
    this.#together.push(done.catch(() => undefined))
    return done
  }

  /** Runs `act` when all earlier users have ended. Later ones wait. */
  alone<T>(act: () => Promise<T>): Promise<T> {
    const done = Promise.all([this.#last, ...this.#together]).then(act)
    this.#together = []
    this.#last = done.catch(() => undefined)
    return done
  }
}
