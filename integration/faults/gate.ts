/** A lock that admits many shared users or one exclusive user, in the order of their requests. */
export class Gate {
  /** Resolves when all earlier users have ended. */
  #last: Promise<unknown> = Promise.resolve()
  /** The shared users since the last exclusive user. */
  #together: Promise<unknown>[] = []

  /** Runs `act` as a shared user. */
  together<T>(act: () => Promise<T>): Promise<T> {
    const done = this.#last.then(act)
    this.#together.push(done.catch(() => undefined))
    return done
  }

  /** Runs `act` as the exclusive user, after all earlier users have ended. Later users wait for it. */
  alone<T>(act: () => Promise<T>): Promise<T> {
    const done = Promise.all([this.#last, ...this.#together]).then(act)
    this.#together = []
    this.#last = done.catch(() => undefined)
    return done
  }
}
