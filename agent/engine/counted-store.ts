import type { Kind, Owner, Records } from "../records.ts"
import { type Identity, type PodName, type Store, type Stored, StoreError, type WatchEvent } from "../store.ts"
import type { Clock } from "./surroundings.ts"

/** A store that counts what is asked of it, and knows when it last answered and what is wrong with it. */
export class CountedStore implements Store {
  readonly boundPods?: NonNullable<Store["boundPods"]>
  readonly #store: Store
  readonly #clock: Clock
  #requests = 0
  #writes = 0
  #watchEvents = 0
  #lastContactMs: number | undefined
  #fault: string | undefined

  constructor(store: Store, clock: Clock) {
    this.#store = store
    this.#clock = clock
    if (store.boundPods)
      this.boundPods = (node, signal) => this.#counted((store.boundPods as BoundPods).call(store, node, signal))
  }

  get name(): string {
    return this.#store.name
  }

  /** As `Status` has it. `fault` is that of the last request, and absent after one that succeeded. */
  get counts() {
    const lastContactS =
      this.#lastContactMs === undefined ? undefined : (this.#clock.bootMs() - this.#lastContactMs) / 1000
    return {
      ...(this.#fault !== undefined && { fault: this.#fault }),
      ...(lastContactS !== undefined && { lastContactS }),
      requests: this.#requests,
      writes: this.#writes,
      watchEvents: this.#watchEvents,
    }
  }

  identity(): Promise<Identity> {
    return this.#ask(() => this.#store.identity())
  }

  find<K extends Kind>(kind: K, key: string): Promise<Stored<K> | undefined> {
    return this.#ask(() => this.#store.find(kind, key))
  }

  list<K extends Kind>(kind: K): Promise<Stored<K>[]> {
    return this.#ask(() => this.#store.list(kind))
  }

  create<K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Stored<K> | undefined> {
    this.#writes++
    return this.#ask(() => this.#store.create(kind, key, value))
  }

  replace<K extends Kind>(stored: Stored<K>, value: Records[K]): Promise<Stored<K> | undefined> {
    this.#writes++
    return this.#ask(() => this.#store.replace(stored, value))
  }

  remove<K extends Kind>(stored: Stored<K>): Promise<boolean> {
    this.#writes++
    return this.#ask(() => this.#store.remove(stored))
  }

  watch<K extends Kind>(kind: K, signal: AbortSignal): AsyncIterable<WatchEvent<K>> {
    return this.#counted(this.#store.watch(kind, signal))
  }

  members(): Promise<readonly Owner[]> {
    return this.#ask(() => this.#store.members())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#store[Symbol.asyncDispose]()
  }

  /** The time of contact is that of sending: what an answer says was true then. */
  async #ask<T>(ask: () => Promise<T>): Promise<T> {
    this.#requests++
    const sentMs = this.#clock.bootMs()
    try {
      const answer = await ask()
      this.#lastContactMs = Math.max(this.#lastContactMs ?? sentMs, sentMs)
      this.#fault = undefined
      return answer
    } catch (error) {
      if (error instanceof StoreError) this.#fault = error.message
      throw error
    }
  }

  async *#counted<T>(events: AsyncIterable<T>): AsyncIterable<T> {
    this.#requests++
    try {
      for await (const event of events) {
        this.#watchEvents++
        this.#lastContactMs = this.#clock.bootMs()
        this.#fault = undefined
        yield event
      }
    } catch (error) {
      if (error instanceof StoreError) this.#fault = error.message
      throw error
    }
  }
}

type BoundPods = (node: string, signal: AbortSignal) => AsyncIterable<readonly PodName[]>
