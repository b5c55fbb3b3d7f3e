import { engine, type Stop } from "../engine/mod.ts"

export type { Stop }

/**
 * Returns a signal that `watch` aborts. In the native host, `watch` is called at the first use of the signal. Before
 * that nothing can be stopped, and signals of the kernel keep their default effect.
 */
export function stopOnceAsked(watch: (stop: Stop) => void): AbortSignal {
  const stop = engine.newStop?.() ?? new OwnStop(watch)
  if (engine.newStop) watch(stop)
  return stop.signal
}

/** Returns a signal, and the function that aborts it: the engine's `AbortController`, or a partial replacement. */
export function newStop(): Stop {
  return engine.newStop?.() ?? new OwnStop()
}

/**
 * Returns a signal that aborts when the first of these signals aborts, with the same reason, until disposal. If several
 * have already aborted, the reason is that of the first argument among them.
 */
export function anyOf(...signals: readonly (AbortSignal | undefined)[]): Stop & Disposable {
  const stop = newStop()
  const given = signals.filter((signal) => signal !== undefined)
  const acts = given.map((signal) => ({ signal, act: () => stop.abort(signal.reason) }))
  for (const { signal, act } of acts) {
    if (signal.aborted) act()
    signal.addEventListener("abort", act)
  }
  return {
    signal: stop.signal,
    abort: (reason) => stop.abort(reason),
    [Symbol.dispose]() {
      for (const { signal, act } of acts) signal.removeEventListener("abort", act)
    },
  }
}

type Listener = (event: { readonly type: "abort" }) => void

/** A replacement for `AbortController` and its signal, on an engine without them. */
class OwnStop implements Stop {
  reason: unknown
  #isAborted = false
  #watch: ((stop: Stop) => void) | undefined
  readonly #listeners = new Set<Listener>()

  constructor(watch?: (stop: Stop) => void) {
    this.#watch = watch
  }

  get aborted(): boolean {
    this.#begin()
    return this.#isAborted
  }

  #begin(): void {
    const watch = this.#watch
    this.#watch = undefined
    watch?.(this)
  }

  get signal(): AbortSignal {
    return this as unknown as AbortSignal
  }

  abort(reason: unknown = new Error("The operation was aborted")): void {
    if (this.#isAborted) return
    this.#isAborted = true
    this.reason = reason
    for (const listener of this.#listeners) listener({ type: "abort" })
  }

  throwIfAborted(): void {
    if (this.aborted) throw this.reason
  }

  addEventListener(type: string, listener: Listener): void {
    this.#begin()
    if (type === "abort") this.#listeners.add(listener)
  }

  removeEventListener(_type: string, listener: Listener): void {
    this.#listeners.delete(listener)
  }
}
