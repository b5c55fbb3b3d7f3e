import { engine, monotonicMs } from "../engine/mod.ts"
import { type Fd, Poll, type PollRequest, pollAll, read, unwatchSignals, watchSignals } from "../libc/mod.ts"

/** How long to wait at most, and the signal that ends the wait; without them, for ever. */
export interface Until {
  readonly timeoutMs?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/** What happens at a time of `monotonicMs`. */
interface Timer {
  readonly at: number
  readonly act: () => void
}

/** What happens when a descriptor is ready. What is in the background is no reason to go on. */
interface Watch {
  readonly requests: readonly PollRequest[]
  readonly isBackground: boolean
  readonly act: (ready: Uint16Array) => void
}

/** On an engine with a loop of its own, how often descriptors are looked at. */
const LOOK_MS = 1

/** What the process waits for. */
class Loop {
  readonly #timers = new Set<Timer & { isBackground: boolean }>()
  readonly #watches = new Set<Watch>()
  #planned: { readonly at: number; readonly cancel: () => void } | undefined

  /** Whether anything is left that the process would go on for. */
  get isWaiting(): boolean {
    return [...this.#timers, ...this.#watches].some(({ isBackground }) => !isBackground)
  }

  /** Has something done later, once. Returns how it is called off. */
  at(timer: Timer, isBackground = false): () => void {
    const own = { ...timer, isBackground }
    this.#timers.add(own)
    this.#plan()
    return () => void this.#timers.delete(own)
  }

  /** Has something done each time that descriptors are ready. Returns how that ends. */
  watch(watch: Watch): () => void {
    this.#watches.add(watch)
    this.#plan()
    return () => void this.#watches.delete(watch)
  }

  /** Waits until something happens, `mostMs` at most, and does what is to be done then. */
  turn(mostMs = Number.POSITIVE_INFINITY): void {
    const watches = [...this.#watches]
    const requests = watches.flatMap((watch) => watch.requests)
    const leftMs = Math.min(mostMs, this.#nextTime() - monotonicMs())
    const timeoutMs = leftMs === Number.POSITIVE_INFINITY ? undefined : leftMs
    // Where others drive the loop and there is nothing to look at, an engine need not have poll(2).
    const ready = requests.length > 0 || mostMs > 0 ? pollAll(requests, timeoutMs) : new Uint16Array()
    let from = 0
    for (const watch of watches) {
      const own = ready.subarray(from, from + watch.requests.length)
      from += watch.requests.length
      if (own.some((events) => events !== 0) && this.#watches.has(watch)) watch.act(own)
    }
    this.#runTimers() // after a last look at what is ready
  }

  #runTimers(): void {
    const now = monotonicMs()
    const due = [...this.#timers].filter(({ at }) => at <= now).sort((one, other) => one.at - other.at)
    for (const timer of due) if (this.#timers.delete(timer)) timer.act()
  }

  #nextTime(): number {
    let next = Number.POSITIVE_INFINITY
    for (const { at } of this.#timers) next = Math.min(next, at)
    return next
  }

  /** On an engine with a loop of its own: has that take the next turn. */
  #plan(): void {
    if (!engine.later) return
    const now = monotonicMs()
    const at = Math.min(this.#nextTime(), this.#watches.size > 0 ? now + LOOK_MS : Number.POSITIVE_INFINITY)
    if (at === Number.POSITIVE_INFINITY || (this.#planned && this.#planned.at <= at)) return
    this.#planned?.cancel()
    const turn = () => {
      this.#planned = undefined
      this.turn(0)
      this.#plan()
    }
    this.#planned = { at, cancel: engine.later(Math.max(0, at - now), turn) }
  }
}

/** A process has one. */
export const loop = new Loop()

/**
 * Waits until one of several descriptors is ready or broken. Returns the events of each descriptor, like `pollAll`; 0
 * for all when the wait has ended before.
 */
export function readyOf(requests: readonly PollRequest[], { timeoutMs, signal }: Until = {}): Promise<Uint16Array> {
  return waiting(requests.length, timeoutMs, signal, (act) => loop.watch({ requests, isBackground: false, act }))
}

/** The same for one descriptor. */
export async function ready(fd: Fd, events: number, until: Until = {}): Promise<number> {
  return (await readyOf([{ fd, events }], until))[0] ?? 0
}

/** Waits. Returns at once when the signal says stop. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await waiting(0, ms, signal)
}

/** A wait that ends with what is watched, a time, or a signal: with the first of these. */
function waiting(
  count: number,
  timeoutMs: number | undefined,
  signal: AbortSignal | undefined,
  watch?: (act: (ready: Uint16Array) => void) => () => void,
): Promise<Uint16Array> {
  const nothing = new Uint16Array(count)
  if (signal?.aborted) return Promise.resolve(nothing)
  return new Promise((resolve) => {
    const end = (found: Uint16Array) => {
      for (const off of offs) off?.()
      signal?.removeEventListener("abort", stop)
      resolve(found)
    }
    const stop = () => end(nothing)
    const timer = timeoutMs === undefined ? undefined : loop.at({ at: monotonicMs() + timeoutMs, act: stop })
    const offs = [timer, watch?.(end)]
    signal?.addEventListener("abort", stop)
  })
}

/** Does something each `ms` until it is disposed of. The process does not go on for this alone. */
export function every(ms: number, act: () => void): Disposable {
  let off = () => {}
  const next = () => {
    off = loop.at({ at: monotonicMs() + ms, act: again }, true)
  }
  const again = () => {
    next()
    act()
  }
  next()
  return { [Symbol.dispose]: () => off() }
}

/**
 * Does something when a signal of this number comes, which then does not end the process. One at a time for each signal. The process
 * does not go on for this alone.
 */
export function onSignal(signal: number, act: () => void): Disposable {
  if (engine.onSignal) return { [Symbol.dispose]: engine.onSignal(signal, act) }
  const descriptor = watchSignals(signal)
  const taken = () => {
    read(descriptor.fd, new Uint8Array(128)) // struct signalfd_siginfo
    act()
  }
  const off = loop.watch({ requests: [{ fd: descriptor.fd, events: Poll.In }], isBackground: true, act: taken })
  return {
    [Symbol.dispose]() {
      off()
      descriptor[Symbol.dispose]()
      unwatchSignals(signal)
    },
  }
}
