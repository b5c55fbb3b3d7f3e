import { Chance } from "../../integration/lab/mod.ts"

/** Something that may happen next: an answer arrives, a timer ends, a request reaches the store. */
export interface Event {
  /** For the list of steps: "node-1: the answer to create block pods/10.0.0.0/30". */
  readonly what: () => string
  readonly happen: () => void
  /** Whether it has to wait, because its process is stopped. */
  readonly isHeld?: () => boolean
  /** Whether it never happens, because its process has ended. */
  readonly isVoid?: () => boolean
}

/** Spreads seeds that are neighbours over all 32 bits. */
const GOLDEN = 0x9e3779b1

interface Timer {
  readonly at: number
  readonly event: Event
}

/**
 * Chooses what happens next, by a seed. Nothing else in a simulation has chance or time: one seed is one schedule, and
 * gives the same steps each time. `drain` runs what follows from an event until all wait again.
 */
export class Scheduler {
  readonly chance: Chance
  /** The true time, in milliseconds. */
  nowMs = 0
  /** All that has happened; kept where a failure is replayed. */
  readonly steps: string[] | undefined
  count = 0
  readonly #ready: Event[] = []
  readonly #timers: Timer[] = []
  readonly #drain: () => void

  constructor(seed: number, { drain, isTold = false }: { drain: () => void; isTold?: boolean }) {
    this.chance = new Chance(Math.imul(seed, GOLDEN) << 1)
    this.#drain = drain
    this.steps = isTold ? [] : undefined
  }

  /** True once in `times`. */
  once(times: number): boolean {
    return this.chance.below(times) === 0
  }

  /** Notes a step. */
  tell(what: () => string): void {
    this.steps?.push(`${String(this.count).padStart(4)} ${(this.nowMs / 1000).toFixed(1).padStart(8)} s  ${what()}`)
  }

  /** From now on the event may happen. */
  add(event: Event): void {
    this.#ready.push(event)
  }

  /** The event may happen in `ms` and later. */
  after(ms: number, event: Event): void {
    this.#timers.push({ at: this.nowMs + ms, event })
  }

  /** Does something now, and all that follows from it. */
  act(what: () => string, happen: () => void): void {
    this.count++
    this.tell(what)
    happen()
    this.#drain()
  }

  /** Lets one thing happen: by chance one of those that may, or the next timer. False where nothing is left to happen. */
  step(): boolean {
    const at = this.#chooseReady()
    if (at === undefined || (this.#timers.length > 0 && this.once(8))) return this.#ringNext() || this.#takeReady(at)
    return this.#takeReady(at)
  }

  /** Lets all happen that may, in the order in which it became possible, and the timers of the next `ms`. */
  settle(ms: number, limit = 100_000): void {
    const end = this.nowMs + ms
    for (let left = limit; left > 0; left--) {
      const at = this.#ready.findIndex(({ isHeld }) => isHeld?.() !== true)
      if (at >= 0) this.#takeReady(at)
      else {
        const next = this.#nextTimer()
        if (next === undefined || (this.#timers[next]?.at ?? 0) > end) break
        this.#ring(next)
      }
      if (left === 1) throw new Error("The agents do not come to rest")
    }
    this.nowMs = Math.max(this.nowMs, end)
  }

  /** One of the events that may happen now. */
  #chooseReady(): number | undefined {
    for (let tries = 0; tries < 4 && this.#ready.length > 0; tries++) {
      const at = this.chance.below(this.#ready.length)
      if (this.#ready[at]?.isHeld?.() !== true) return at
    }
    return undefined
  }

  #takeReady(at: number | undefined): boolean {
    if (at === undefined) return false
    const [event] = this.#ready.splice(at, 1)
    if (event && event.isVoid?.() !== true) this.act(event.what, event.happen)
    return true
  }

  #nextTimer(): number | undefined {
    let found: number | undefined
    let soonest = Number.POSITIVE_INFINITY
    for (let index = this.#timers.length - 1; index >= 0; index--) {
      const { at, event } = this.#timers[index] as Timer
      if (event.isVoid?.() === true) {
        this.#timers.splice(index, 1)
        if (found !== undefined) found--
      } else if (at < soonest && event.isHeld?.() !== true) {
        found = index
        soonest = at
      }
    }
    return found
  }

  #ringNext(): boolean {
    const next = this.#nextTimer()
    if (next === undefined) return false
    this.#ring(next)
    return true
  }

  #ring(index: number): void {
    const [timer] = this.#timers.splice(index, 1)
    if (!timer) return
    this.nowMs = Math.max(this.nowMs, timer.at)
    this.act(timer.event.what, timer.event.happen)
  }
}
