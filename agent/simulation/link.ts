import type { Kind, Owner, Records } from "../records.ts"
import { type Identity, type Store, type Stored, StoreError, type WatchEvent } from "../store.ts"
import type { Scheduler } from "./scheduler.ts"
import type { Change, StoreModel } from "./store.ts"

/** The network between one node and the store. */
export interface Network {
  /** "requests" or "answers" are lost one way; "both": nothing passes. */
  lost: "nothing" | "requests" | "answers" | "both"
  /** Once in so many calls something is lost, refused or late; 0 for never. */
  faultEvery: number
  /** Whether requests wait on their way to the store. */
  holdsRequests: boolean
  /** Whether members() answers that there are no nodes. */
  showsNoMembers: boolean
}

/** The process on whose behalf calls are made. */
export interface Caller {
  readonly name: string
  isDead: boolean
  isPaused: boolean
}

/** An agent's door to the store: the model behind a network that loses, delays and reorders requests and answers. */
export class StoreLink implements Store {
  readonly name = "the simulated store"
  readonly #scheduler: Scheduler
  readonly #model: StoreModel
  readonly #network: Network
  readonly #caller: Caller

  constructor(parts: { scheduler: Scheduler; model: StoreModel; network: Network; caller: Caller }) {
    this.#scheduler = parts.scheduler
    this.#model = parts.model
    this.#network = parts.network
    this.#caller = parts.caller
  }

  identity(): Promise<Identity> {
    return this.#call("identity", () => ({ cluster: this.#model.cluster, revision: this.#model.revision }))
  }

  find<K extends Kind>(kind: K, key: string): Promise<Stored<K> | undefined> {
    return this.#call(`find ${kind} ${key}`, () => this.#model.find(kind, key))
  }

  list<K extends Kind>(kind: K): Promise<Stored<K>[]> {
    return this.#call(`list ${kind}`, () => this.#model.list(kind))
  }

  create<K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Stored<K> | undefined> {
    return this.#call(`create ${kind} ${key}`, () => this.#model.create(kind, key, value))
  }

  replace<K extends Kind>(stored: Stored<K>, value: Records[K]): Promise<Stored<K> | undefined> {
    return this.#call(`replace ${stored.kind} ${stored.key} @${stored.version}`, () =>
      this.#model.replace(stored, value),
    )
  }

  remove<K extends Kind>(stored: Stored<K>): Promise<boolean> {
    return this.#call(`remove ${stored.kind} ${stored.key} @${stored.version}`, () => this.#model.remove(stored))
  }

  members(): Promise<readonly Owner[]> {
    return this.#call("members", () => (this.#network.showsNoMembers ? [] : this.#model.members))
  }

  watch<K extends Kind>(kind: K, signal: AbortSignal): AsyncIterable<WatchEvent<K>> {
    const parts = { scheduler: this.#scheduler, model: this.#model, network: this.#network, caller: this.#caller }
    return { [Symbol.asyncIterator]: () => new Watch(kind, signal, parts) }
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  /**
   * A request that travels to the store, is applied there at one moment, and whose answer travels back. Each may be lost. A request
   * without an answer may still be applied later, as a store does that had no quorum.
   */
  #call<T>(what: string, apply: () => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const caller = this.#caller
    if (caller.isDead) return promise
    const [network, scheduler] = [this.#network, this.#scheduler]
    const held = { isHeld: () => caller.isPaused, isVoid: () => caller.isDead }
    const fail = (outcome: StoreError["outcome"], why: string) =>
      scheduler.add({
        what: () => `${caller.name}: ${what}: ${why}`,
        happen: () => reject(new StoreError(`Cannot ${what}: ${why}`, outcome)),
        ...held,
      })
    const { era } = this.#model
    const arrive = (isAnswered: boolean) => {
      if (era !== this.#model.era) return isAnswered ? fail("unknown", "the connection broke") : undefined
      const answer = apply()
      const isLost = network.lost === "answers" || network.lost === "both" || this.#isFaulty()
      if (!isAnswered) return
      if (isLost) fail("unknown", "the answer was lost")
      else
        scheduler.add({
          what: () => `${caller.name}: ${what}: answer ${describe(answer)}`,
          happen: () => resolve(answer),
          ...held,
        })
    }
    const applied = (isAnswered: boolean) => ({
      what: () => `store: ${what} of ${caller.name}${isAnswered ? "" : ", late"}`,
      happen: () => arrive(isAnswered),
      isHeld: () => network.holdsRequests,
    })
    if (network.lost === "requests" || network.lost === "both") {
      fail(scheduler.once(2) ? "unknown" : "refused", "no connection")
    } else if (!this.#isFaulty()) scheduler.add(applied(true))
    else if (scheduler.once(3)) fail("refused", "refused")
    else {
      if (scheduler.once(2)) scheduler.after(scheduler.chance.below(20_000), applied(false))
      fail("unknown", "no answer in time")
    }
    return promise
  }

  #isFaulty(): boolean {
    const { faultEvery } = this.#network
    return faultEvery > 0 && this.#scheduler.once(faultEvery)
  }
}

function describe(answer: unknown): string {
  return JSON.stringify(answer, (_, value) => (typeof value === "bigint" ? Number(value) : value)) ?? "none"
}

interface Parts {
  readonly scheduler: Scheduler
  readonly model: StoreModel
  readonly network: Network
  readonly caller: Caller
}

/** One watch: events come in order, each as late as chance has it. A connection that breaks ends it with an error. */
class Watch<K extends Kind> implements AsyncIterableIterator<WatchEvent<K>> {
  readonly #kind: K
  readonly #parts: Parts
  readonly #travelling: WatchEvent<K>[] = []
  readonly #arrived: WatchEvent<K>[] = []
  readonly #unfollow: () => void
  #next: PromiseWithResolvers<IteratorResult<WatchEvent<K>>> | undefined
  #end: "broken" | "done" | undefined

  constructor(kind: K, signal: AbortSignal, parts: Parts) {
    this.#kind = kind
    this.#parts = parts
    this.#unfollow = parts.model.follow({
      changed: (change) => this.#take(change),
      broken: () => this.#send(undefined),
    })
    if (isCut(parts.network)) this.#send(undefined)
    else this.#send({ type: "all", records: parts.model.list(kind) })
    if (signal.aborted) this.#close("done")
    else signal.addEventListener("abort", () => this.#close("done"), { once: true })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<WatchEvent<K>>> {
    this.#next = Promise.withResolvers()
    this.#hand()
    return this.#next?.promise ?? Promise.resolve({ value: undefined, done: true })
  }

  async return(): Promise<IteratorResult<WatchEvent<K>>> {
    this.#close("done")
    return { value: undefined, done: true }
  }

  #take({ kind, key, after }: Change): void {
    if (this.#parts.caller.isDead) this.#unfollow()
    if (kind !== this.#kind || this.#parts.caller.isDead) return
    this.#send(after ? { type: "put", record: after as Stored<K> } : { type: "removed", key })
  }

  /** Puts an event on its way; without one the connection breaks. */
  #send(event: WatchEvent<K> | undefined): void {
    const { scheduler, network, caller } = this.#parts
    if (this.#end) return
    if (event) this.#travelling.push(event)
    scheduler.add({
      what: () => `${caller.name}: the watch of ${this.#kind} ${event ? "has an event" : "breaks"}`,
      happen: () => {
        const first = this.#travelling.shift()
        if (!event || isCut(network) || (network.faultEvery > 0 && scheduler.once(network.faultEvery))) {
          this.#close("broken")
        } else if (first) {
          this.#arrived.push(first)
          this.#hand()
        }
      },
      isHeld: () => caller.isPaused,
      isVoid: () => caller.isDead || this.#end !== undefined,
    })
  }

  #close(end: "broken" | "done"): void {
    this.#end ??= end
    this.#unfollow()
    this.#hand()
  }

  #hand(): void {
    const next = this.#next
    if (!next) return
    const event = this.#arrived.shift()
    if (event) next.resolve({ value: event, done: false })
    else if (this.#end === "done") next.resolve({ value: undefined, done: true })
    else if (this.#end) next.reject(new StoreError(`Cannot watch ${this.#kind}: the connection broke`, "unknown"))
    else return
    this.#next = undefined
  }
}

function isCut({ lost }: Network): boolean {
  return lost !== "nothing"
}
