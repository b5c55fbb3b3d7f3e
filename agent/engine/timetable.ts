import type { Surroundings } from "./surroundings.ts"

const SWEEP_MS = 60_000
/** In a cluster of n nodes each sweeps every n times this, so that the store is asked five times a second at most. */
const SWEEP_OF_ONE_MS = 200
/** Passes do not follow one another sooner: one pass does for many changes. */
const PAUSE_MS = 20
/**
 * A pass for containers that come is that much later than the one before: the addresses in hand last longer. One for containers that go has
 * more time.
 */
const COME_MS = 100
const GO_MS = 500
const RETRY_MS = 500
const RETRY_MAX_MS = 30_000

/** When the next pass of an agent begins. */
export class Timetable {
  readonly #surroundings: Surroundings
  readonly #sweepMs: number
  #sweepAtMs: number
  #isSweepDue = false
  #beganMs = 0
  #nextMs = Number.POSITIVE_INFINITY
  #isWoken = false
  #failures = 0
  #hasFailed = false
  #sleeping = new AbortController()

  constructor(surroundings: Surroundings, sweepMs = SWEEP_MS) {
    this.#surroundings = surroundings
    this.#sweepMs = sweepMs
    this.#sweepAtMs = surroundings.clock.bootMs() + this.#jittered(sweepMs)
  }

  /** A pass begins: what wakes from now on leads to another one. */
  begin(): void {
    this.#beganMs = this.#surroundings.clock.bootMs()
    this.#isSweepDue = this.#beganMs >= this.#sweepAtMs
    this.#isWoken = false
    this.#hasFailed = false
    this.#nextMs = Number.POSITIVE_INFINITY
  }

  /** Whether this pass has to sweep. One that cannot leaves it to the next, which comes for another reason. */
  get isSweepDue(): boolean {
    return this.#isSweepDue
  }

  planSweep(nodes: number): void {
    this.#isSweepDue = false
    const now = this.#surroundings.clock.bootMs()
    this.#sweepAtMs = now + this.#jittered(Math.max(this.#sweepMs, nodes * SWEEP_OF_ONE_MS))
  }

  /** Another pass is due in so many milliseconds. */
  within(ms: number | undefined): void {
    if (ms !== undefined) this.#until(this.#surroundings.clock.bootMs() + ms)
  }

  /** Containers come or go; `isFilling` says that at least as many have come as gone of late. */
  churn(isFilling: boolean): void {
    this.#until(this.#beganMs + (isFilling ? COME_MS : GO_MS))
  }

  #until(atMs: number): void {
    if (atMs >= this.#nextMs) return
    this.#nextMs = atMs
    this.#sleeping.abort()
  }

  /** Something has failed in this pass: it is tried again, later each time. */
  retry(): void {
    if (!this.#hasFailed) this.#failures++
    this.#hasFailed = true
  }

  wake(): void {
    this.#isWoken = true
    this.#sleeping.abort()
  }

  /** Waits for the next pass. */
  async wait(signal: AbortSignal): Promise<void> {
    const { clock } = this.#surroundings
    if (this.#hasFailed) this.within(this.#jittered(Math.min(RETRY_MS * 2 ** (this.#failures - 1), RETRY_MAX_MS)))
    else this.#failures = 0
    const pauseEndMs = clock.bootMs() + PAUSE_MS
    for (let restMs = this.#rest(); !this.#isWoken && !signal.aborted && restMs > 0; restMs = this.#rest()) {
      if (this.#sleeping.signal.aborted) this.#sleeping = new AbortController()
      await clock.sleep(restMs, this.#sleeping.signal)
    }
    const pauseMs = pauseEndMs - clock.bootMs()
    if (pauseMs > 0) await clock.sleep(pauseMs, signal)
  }

  #rest(): number {
    const atMs = this.#isSweepDue ? this.#nextMs : Math.min(this.#nextMs, this.#sweepAtMs)
    return atMs - this.#surroundings.clock.bootMs()
  }

  /** Three to five quarters of it: agents that were started together do not stay together. */
  #jittered(ms: number): number {
    return Math.round(ms * (0.75 + Number.parseInt(this.#surroundings.randomHex(2), 16) / 0x20000))
  }
}
