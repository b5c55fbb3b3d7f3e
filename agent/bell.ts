/** Wakes a waiting loop, only once for several rings before the loop waits again. */
export class Bell {
  #rung = false
  #wake: (() => void) | undefined

  ring(): void {
    this.#rung = true
    this.#wake?.()
  }

  /** Waits for a ring, unless it rang since the last wait. Returns true, or false when `signal` is aborted. */
  async rung(signal: AbortSignal): Promise<boolean> {
    if (!this.#rung && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const end = () => resolve()
      this.#wake = end
      signal.addEventListener("abort", end)
      await promise
      signal.removeEventListener("abort", end)
      this.#wake = undefined
    }
    this.#rung = false
    return !signal.aborted
  }
}
