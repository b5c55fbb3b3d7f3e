import { engine, type Stop } from "../engine/mod.ts"

export type { Stop }

/**
 * A signal that says stop once `watch` has it do so. Where the loop is ours `watch` is called when this is first asked or listened to:
 * until then there is nothing to stop, and what would tell of a stop, signals of the kernel for example, acts as if this were not there.
 */
export function stopOnceAsked(watch: (stop: Stop) => void): AbortSignal {
  const stop = engine.newStop?.() ?? new OwnStop(watch)
  if (engine.newStop) watch(stop)
  return stop.signal
}

/** A signal of our own that says stop: the engine's `AbortController`, or the part of it that we use. */
export function newStop(): Stop {
  return engine.newStop?.() ?? new OwnStop()
}

/** A signal that says stop as soon as one of these does, with its reason, until it is disposed of; the first of them goes first. */
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

/**
 * `AbortController` and its signal in one, for an engine without them.
 */
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
