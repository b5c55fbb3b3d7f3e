import type { Kind, Owner, Records } from "../records.ts"
import { type Identity, type PodName, type Store, type Stored, StoreError, type WatchEvent } from "../store.ts"

/** A call of a store that changes a record, as a test decides about it. */
export interface Write {
  readonly call: "create" | "replace" | "remove"
  readonly kind: Kind
  readonly key: string
}

/** What becomes of a write: done; refused; done, and its answer lost; not done, and no answer; done when `MemoryStore.deliver` is called, and no answer. */
export type Fate = "done" | "refused" | "lost answer" | "lost request" | "late"

/** A store in memory that several clients share. Tests decide what becomes of each write, and when watches hear of it. */
export class MemoryCluster {
  readonly #records = new Map<string, Stored<Kind>>()
  readonly #watchers = new Set<Watcher>()
  readonly #late: (() => void)[] = []
  #revision = 0n
  cluster = "cluster-1"
  /** All writes fail without an answer, and nothing is read. */
  isDown = false
  /** Watches do not hear of changes, until `makeGap`. */
  isDeaf = false
  /** What `members` answers, where it is not the owners of the node records. */
  members: readonly Owner[] | undefined
  askedForMembers = 0
  fateOf: (write: Write) => Fate = () => "done"
  /** Every write that has changed something. */
  readonly writes: Write[] = []

  open(): MemoryStore {
    return new MemoryStore(this)
  }

  /** Makes the changes whose requests were late, in the order in which they were sent. */
  deliver(): void {
    for (const change of this.#late.splice(0)) change()
  }

  /** Has the cluster as it is now come back later, as from a backup; watches break, unless they do not notice. */
  backup(): (isNoticed?: boolean) => void {
    const records = new Map(this.#records)
    const revision = this.#revision
    return (isNoticed = true) => {
      this.#records.clear()
      for (const [key, record] of records) this.#records.set(key, record)
      this.#revision = revision
      if (isNoticed) this.breakWatches()
    }
  }

  /** Ends all watches by an error, as a lost connection does. */
  breakWatches(): void {
    for (const watcher of this.#watchers) watcher.fail(new StoreError("connection lost", "unknown"))
  }

  /** Has all watches begin anew, as after a history that was compacted. */
  makeGap(): void {
    this.isDeaf = false
    for (const watcher of this.#watchers) watcher.push({ type: "all", records: this.list(watcher.kind) })
  }

  get revision(): bigint {
    return this.#revision
  }

  find(kind: Kind, key: string): Stored<Kind> | undefined {
    return this.#records.get(`${kind} ${key}`)
  }

  list(kind: Kind): Stored<Kind>[] {
    return [...this.#records.values()].filter((record) => record.kind === kind)
  }

  /** Does what a write asks for, by its fate. `change` is made where `expected` is still the version of the record. */
  write<T>(write: Write, change: () => T): T {
    if (this.isDown) throw new StoreError("no answer", "unknown")
    const make = () => {
      const made = change()
      if (made) this.writes.push(write)
      return made
    }
    const fate = this.fateOf(write)
    if (fate === "done") return make()
    if (fate === "refused") throw new StoreError("refused", "refused")
    if (fate === "lost answer") make()
    if (fate === "late") this.#late.push(make)
    throw new StoreError("no answer", "unknown")
  }

  put<K extends Kind>(kind: K, key: string, value: Records[K]): Stored<K> {
    const revision = ++this.#revision
    const stored: Stored<K> = { kind, key, value: structuredClone(value), version: `${revision}`, revision }
    this.#records.set(`${kind} ${key}`, stored)
    this.#tell(kind, { type: "put", record: stored })
    return stored
  }

  drop(kind: Kind, key: string): void {
    this.#revision++
    this.#records.delete(`${kind} ${key}`)
    this.#tell(kind, { type: "removed", key })
  }

  #tell(kind: Kind, event: WatchEvent<Kind>): void {
    if (this.isDeaf) return
    for (const watcher of this.#watchers) if (watcher.kind === kind) watcher.push(event)
  }

  watch(kind: Kind): Watcher & Disposable {
    const watcher = new Watcher(kind)
    this.#watchers.add(watcher)
    watcher.push({ type: "all", records: this.list(kind) })
    return Object.assign(watcher, { [Symbol.dispose]: () => this.#watchers.delete(watcher) })
  }
}

/** The events of one watch that were not taken yet. */
class Watcher {
  readonly kind: Kind
  readonly #events: (WatchEvent<Kind> | Error)[] = []
  #wake = () => {}

  constructor(kind: Kind) {
    this.kind = kind
  }

  push(event: WatchEvent<Kind>): void {
    this.#events.push(event)
    this.#wake()
  }

  fail(error: Error): void {
    this.#events.push(error)
    this.#wake()
  }

  async next(signal: AbortSignal): Promise<WatchEvent<Kind> | undefined> {
    while (this.#events.length === 0 && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#wake = resolve
      signal.addEventListener("abort", () => resolve(), { once: true })
      await promise
    }
    if (signal.aborted) return undefined
    const event = this.#events.shift()
    if (event instanceof Error) throw event
    return event
  }
}

/** One client of a `MemoryCluster`. */
export class MemoryStore implements Store {
  readonly name = "memory"
  boundPods?: (node: string, signal: AbortSignal) => AsyncIterable<readonly PodName[]>
  readonly #cluster: MemoryCluster
  readonly #closed = new AbortController()
  /** Is told of each call, before and after a write; what it throws is thrown. */
  step: (what: string) => void = () => {}

  constructor(cluster: MemoryCluster) {
    this.#cluster = cluster
  }

  async identity(): Promise<Identity> {
    this.#requireUp()
    return { cluster: this.#cluster.cluster, revision: this.#cluster.revision }
  }

  async find<K extends Kind>(kind: K, key: string): Promise<Stored<K> | undefined> {
    this.#requireUp()
    return this.#cluster.find(kind, key) as Stored<K> | undefined
  }

  async list<K extends Kind>(kind: K): Promise<Stored<K>[]> {
    this.#requireUp()
    return this.#cluster.list(kind) as Stored<Kind>[] as Stored<K>[]
  }

  async create<K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Stored<K> | undefined> {
    return this.#write({ call: "create", kind, key }, () =>
      this.#cluster.find(kind, key) ? undefined : this.#cluster.put(kind, key, value),
    )
  }

  async replace<K extends Kind>({ kind, key, version }: Stored<K>, value: Records[K]): Promise<Stored<K> | undefined> {
    return this.#write({ call: "replace", kind, key }, () =>
      this.#cluster.find(kind, key)?.version === version ? this.#cluster.put(kind, key, value) : undefined,
    )
  }

  async remove<K extends Kind>({ kind, key, version }: Stored<K>): Promise<boolean> {
    return this.#write({ call: "remove", kind, key }, () => {
      if (this.#cluster.find(kind, key)?.version !== version) return false
      this.#cluster.drop(kind, key)
      return true
    })
  }

  async *watch<K extends Kind>(kind: K, signal: AbortSignal): AsyncIterable<WatchEvent<K>> {
    this.#requireUp()
    using watcher = this.#cluster.watch(kind)
    const end = AbortSignal.any([signal, this.#closed.signal])
    for (;;) {
      const event = await watcher.next(end)
      if (!event) return
      yield event as WatchEvent<Kind> as WatchEvent<K>
    }
  }

  async members(): Promise<readonly Owner[]> {
    this.#requireUp()
    this.#cluster.askedForMembers++
    return this.#cluster.members ?? (await this.list("node")).map(({ value }) => value.owner)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort()
  }

  #write<T>(write: Write, change: () => T): T {
    const what = `${write.call} ${write.kind} ${write.key}`
    this.step(what)
    try {
      return this.#cluster.write(write, change)
    } finally {
      this.step(`${what}: done`)
    }
  }

  #requireUp(): void {
    this.step("read")
    if (this.#cluster.isDown) throw new StoreError("no answer", "unknown")
  }
}
