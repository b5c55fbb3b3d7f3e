import { engine, monotonicMs } from "../engine/mod.ts"
import { type Fd, Poll, type PollRequest, pollAll, read, unwatchSignals, watchSignals } from "../libc/mod.ts"

/** The maximum time of a wait, and a signal that ends the wait. Without either, the wait has no limit. */
export interface Until {
  readonly timeoutMs?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/** An action, and the time of `monotonicMs` at which it runs. */
interface Timer {
  readonly at: number
  readonly act: () => void
}

/** An action that runs when descriptors are ready. A background watch does not keep the process alive. */
interface Watch {
  readonly requests: readonly PollRequest[]
  readonly isBackground: boolean
  readonly act: (ready: Uint16Array) => void
}

/** The interval in milliseconds at which descriptors are polled on an engine with its own event loop. */
const LOOK_MS = 1

class Loop {
  readonly #timers = new Set<Timer & { isBackground: boolean }>()
  readonly #watches = new Set<Watch>()
  #planned: { readonly at: number; readonly cancel: () => void } | undefined

  /** Whether a timer or watch is left that keeps the process alive. */
  get isWaiting(): boolean {
    return [...this.#timers, ...this.#watches].some(({ isBackground }) => !isBackground)
  }

  /** Schedules a timer. Returns a function that cancels it. */
  at(timer: Timer, isBackground = false): () => void {
    const own = { ...timer, isBackground }
    this.#timers.add(own)
    this.#plan()
    return () => void this.#timers.delete(own)
  }

  /** Adds a watch, whose action runs each time that its descriptors are ready. Returns a function that removes it. */
  watch(watch: Watch): () => void {
    this.#watches.add(watch)
    this.#plan()
    return () => void this.#watches.delete(watch)
  }

  /** Waits until a descriptor is ready or a timer is due, for at most `mostMs`, and runs the actions. */
  turn(mostMs = Number.POSITIVE_INFINITY): void {
    const watches = [...this.#watches]
    const requests = watches.flatMap((watch) => watch.requests)
    const leftMs = Math.min(mostMs, this.#nextTime() - monotonicMs())
    const timeoutMs = leftMs === Number.POSITIVE_INFINITY ? undefined : leftMs
    // An engine with its own event loop may lack poll(2). Without descriptors, it is not needed there.
    const ready = requests.length > 0 || mostMs > 0 ? pollAll(requests, timeoutMs) : new Uint16Array()
    let from = 0
    for (const watch of watches) {
      const own = ready.subarray(from, from + watch.requests.length)
      from += watch.requests.length
      if (own.some((events) => events !== 0) && this.#watches.has(watch)) watch.act(own)
    }
    this.#runTimers() // the timers run after the last check for ready descriptors
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

  /** Schedules the next turn, on an engine with its own event loop. */
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

/** The event loop of the process. */
export const loop = new Loop()

/**
 * Waits until one of several descriptors is ready or broken. Returns the events of each descriptor, like `pollAll`; 0
 * for each if `timeoutMs` or `signal` ended the wait.
 */
export function readyOf(requests: readonly PollRequest[], { timeoutMs, signal }: Until = {}): Promise<Uint16Array> {
  return waiting(requests.length, timeoutMs, signal, (act) => loop.watch({ requests, isBackground: false, act }))
}

/** Like `readyOf`, for one descriptor. */
export async function ready(fd: Fd, events: number, until: Until = {}): Promise<number> {
  return (await readyOf([{ fd, events }], until))[0] ?? 0
}

/** Waits for a time, or until `signal` aborts. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await waiting(0, ms, signal)
}

/** Waits until `watch` reports ready descriptors, `timeoutMs` has passed, or `signal` aborts. */
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

/** Runs an action every `ms` milliseconds until disposal. The timer does not keep the process alive. */
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
 * Runs an action for each signal with this number until disposal. The signal then does not end the process. Only one
 * action per number may be registered at a time. The registration does not keep the process alive.
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
