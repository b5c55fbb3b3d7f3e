/** Wakes a waiting loop. If it rings several times before the loop waits again, the loop wakes once. */
export class Bell {
  #rung = false
  #wake: (() => void) | undefined

  ring(): void {
    this.#rung = true
    this.#wake?.()
  }

  /** Waits for a ring. Returns at once after a ring since the last wait. Returns false when `signal` is aborted. */
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
