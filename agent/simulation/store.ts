import type { Kind, Owner, Records } from "../records.ts"
import type { Stored } from "../store.ts"

/** A change of a record, as the store has made it. */
export interface Change<K extends Kind = Kind> {
  readonly kind: K
  readonly key: string
  readonly before: Stored<K> | undefined
  readonly after: Stored<K> | undefined
}

/** What follows a store: each change, and that all connections have broken. */
export interface Follower {
  changed(change: Change): void
  broken?(): void
}

/** All that a store keeps, to be restored. */
export interface Backup {
  readonly revision: bigint
  readonly records: ReadonlyMap<string, Stored<Kind>>
}

/**
 * The store itself, without a network in front of it: records, revisions, and compare-and-swap, as etcd has them. A version
 * is the revision of the last change, so that after the restoration of a backup the same versions come again.
 */
export class StoreModel {
  cluster = "cluster-1"
  revision = 0n
  /** The nodes that the cluster has; an operator removes a node here. */
  members: readonly Owner[] = []
  writes = 0
  readonly #records = new Map<string, Stored<Kind>>()
  /** How often the store was made anew: what was asked before is not answered. */
  era = 0
  readonly #followers = new Set<Follower>()

  /** Tells a follower of each change. Returns the function that ends it. */
  follow(follower: Follower): () => void {
    this.#followers.add(follower)
    return () => this.#followers.delete(follower)
  }

  find<K extends Kind>(kind: K, key: string): Stored<K> | undefined {
    return this.#records.get(`${kind} ${key}`) as Stored<K> | undefined
  }

  list<K extends Kind>(kind: K): Stored<K>[] {
    const found: Stored<K>[] = []
    for (const record of this.#records.values()) if (record.kind === kind) found.push(record as Stored<K>)
    return found
  }

  create<K extends Kind>(kind: K, key: string, value: Records[K]): Stored<K> | undefined {
    return this.find(kind, key) ? undefined : this.#put(kind, key, value)
  }

  replace<K extends Kind>(stored: Stored<K>, value: Records[K]): Stored<K> | undefined {
    const { kind, key, version } = stored
    return this.find(kind, key)?.version === version ? this.#put(kind, key, value) : undefined
  }

  remove<K extends Kind>({ kind, key, version }: Stored<K>): boolean {
    const before = this.find(kind, key)
    if (before?.version !== version) return false
    this.revision++
    this.writes++
    this.#records.delete(`${kind} ${key}`)
    this.#publish({ kind, key, before, after: undefined })
    return true
  }

  /** Writes a record without a comparison: for a store with a fault. */
  overwrite<K extends Kind>(kind: K, key: string, value: Records[K]): Stored<K> {
    return this.#put(kind, key, value)
  }

  backUp(): Backup {
    return { revision: this.revision, records: new Map(this.#records) }
  }

  /** Becomes what it was at a backup. etcd gives a restored cluster another id; a restored Kubernetes keeps it. */
  restore({ revision, records }: Backup, cluster: string): void {
    this.#records.clear()
    for (const [key, record] of records) this.#records.set(key, record)
    this.revision = revision
    this.cluster = cluster
    this.era++
    for (const follower of [...this.#followers]) follower.broken?.()
  }

  #put<K extends Kind>(kind: K, key: string, value: Records[K]): Stored<K> {
    const before = this.find(kind, key)
    this.revision++
    this.writes++
    const after: Stored<K> = { kind, key, value, version: String(this.revision), revision: this.revision }
    this.#records.set(`${kind} ${key}`, after)
    this.#publish({ kind, key, before, after })
    return after
  }

  #publish(change: Change): void {
    for (const follower of [...this.#followers]) follower.changed(change)
  }
}
