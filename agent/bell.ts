/** What one loop waits for. Rung many times before the loop comes to it, it wakes the loop once. */
export class Bell {
  #rung = false
  #wake: (() => void) | undefined

  ring(): void {
    this.#rung = true
    this.#wake?.()
  }

  /** Ends when it is rung, at once if it was since the last time. False when `signal` is aborted. */
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
