import type { Surroundings } from "./surroundings.ts"

const FIRST_MS = 1_000
const LAST_MS = 30_000

/**
 * The waits before a watch is begun again. Each is by chance between nothing and a limit, which doubles up to the last: thousands of agents
 * whose watches have broken at one moment do not ask for all records at one moment. A watch that lived for longer than the limit was well.
 */
export class WatchPause {
  readonly #surroundings: Pick<Surroundings, "clock" | "randomHex">
  #limitMs = FIRST_MS
  #beganMs: number

  constructor(surroundings: Pick<Surroundings, "clock" | "randomHex">) {
    this.#surroundings = surroundings
    this.#beganMs = surroundings.clock.bootMs()
  }

  /** Waits after a watch has ended; the next one begins when this ends. */
  async wait(signal: AbortSignal): Promise<void> {
    const { clock, randomHex } = this.#surroundings
    if (signal.aborted) return
    if (clock.bootMs() - this.#beganMs > this.#limitMs) this.#limitMs = FIRST_MS
    const chance = Number.parseInt(randomHex(2), 16) / 0x10000
    const waitMs = Math.round(chance * this.#limitMs)
    this.#limitMs = Math.min(2 * this.#limitMs, LAST_MS)
    await clock.sleep(waitMs, signal)
    this.#beganMs = clock.bootMs()
  }
}
