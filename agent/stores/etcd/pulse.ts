import { MemberFault } from "./fault.ts"

/** How long a stream of messages may be silent. */
export interface PulseLimits {
  /** Before the first message. */
  readonly requestMs: number
  /** After so long without a message the sender is asked for a sign of life. */
  readonly idleMs: number
  /** After so long without a message the stream is given up, also where its sender lives: etcd sends one every ten minutes. */
  readonly silenceMs: number
}

/** Watches over a stream: its `signal` is aborted, with a `MemberFault` as reason, where the stream has been silent for too long. */
export class Pulse implements Disposable {
  readonly #limits: PulseLimits
  readonly #askForLife: () => Promise<unknown>
  readonly #end = new AbortController()
  #timer: NodeJS.Timeout
  #beatMs: number | undefined

  /** `askForLife` throws where the sender does not answer. */
  constructor(limits: PulseLimits, askForLife: () => Promise<unknown>) {
    this.#limits = limits
    this.#askForLife = askForLife
    this.#timer = setTimeout(() => this.#giveUp(limits.requestMs), limits.requestMs)
  }

  get signal(): AbortSignal {
    return this.#end.signal
  }

  /** A message has come. */
  beat(): void {
    const isFirst = this.#beatMs === undefined
    this.#beatMs = performance.now()
    if (!isFirst) return
    clearTimeout(this.#timer)
    this.#timer = setInterval(() => this.#look(), this.#limits.idleMs)
  }

  #look(): void {
    const silentMs = performance.now() - (this.#beatMs ?? 0)
    if (silentMs >= this.#limits.silenceMs) this.#giveUp(this.#limits.silenceMs)
    else if (silentMs >= this.#limits.idleMs) this.#askForLife().catch((reason: unknown) => this.#end.abort(reason))
  }

  #giveUp(ms: number): void {
    this.#end.abort(new MemberFault("no answer", `no message within ${ms} ms`))
  }

  /** Ends the stream. */
  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.#end.abort(new MemberFault("no answer", "the watch has ended"))
  }
}
