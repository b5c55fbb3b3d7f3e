import type { Kind, Owner, Records } from "./records.ts"

/**
 * The door to the store of a cluster: etcd, Kubernetes, or a directory. It keeps records, and changes one by
 * compare-and-swap. There is no lease, no lock and no transaction over several records: no caller needs one.
 */
export interface Store {
  /** The store in words, for messages: "etcd at https://10.0.0.1:2379". */
  readonly name: string

  /**
   * Which store this is, and how far it has come. Another `cluster`, or a smaller `revision` than before, is a store that was
   * replaced or restored from a backup.
   */
  identity(): Promise<Identity>

  /** One record. */
  find<K extends Kind>(kind: K, key: string): Promise<Stored<K> | undefined>

  /** All records of a kind, as they were at one revision. */
  list<K extends Kind>(kind: K): Promise<Stored<K>[]>

  /** Writes a new record. Returns `undefined`, and changes nothing, if the key has a record. */
  create<K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Stored<K> | undefined>

  /** Replaces exactly this version of a record; `undefined` where it has changed or is gone. */
  replace<K extends Kind>(stored: Stored<K>, value: Records[K]): Promise<Stored<K> | undefined>

  /** Removes exactly this version of a record; false where it has changed or is gone. */
  remove<K extends Kind>(stored: Stored<K>): Promise<boolean>

  /**
   * Follows the records of a kind: first all that there are, then each change. After a gap that the store cannot fill, such
   * as a compacted history, all that there are come again. Ends when `signal` is aborted. Throws `StoreError` where the
   * store cannot be reached: call it again.
   */
  watch<K extends Kind>(kind: K, signal: AbortSignal): AsyncIterable<WatchEvent<K>>

  /**
   * The nodes that the cluster has now. Kubernetes: its Node objects. Elsewhere: the records of nodes, which an operator
   * removes with `release-node`.
   */
  members(): Promise<readonly Owner[]>

  /**
   * The pods that are bound to a node: first all, then all again after each change. Absent where the store knows no pods: there an
   * operator names the node of a fixed address.
   */
  boundPods?(node: string, signal: AbortSignal): AsyncIterable<readonly PodName[]>

  /** Closes connections. Records stay. */
  [Symbol.asyncDispose](): Promise<void>
}

export interface PodName {
  readonly namespace: string
  readonly pod: string
}

export interface Identity {
  /** The id of the cluster; it changes when the store is made anew. */
  readonly cluster: string
  /** Grows with each change. */
  readonly revision: bigint
}

/** A record as it was read. */
export interface Stored<K extends Kind> {
  readonly kind: K
  readonly key: string
  readonly value: Records[K]
  /** What `replace` and `remove` compare. Never looked into. */
  readonly version: string
  /** The order in which the records were last changed. */
  readonly revision: bigint
}

export type WatchEvent<K extends Kind> =
  | { readonly type: "all"; readonly records: readonly Stored<K>[] }
  | { readonly type: "put"; readonly record: Stored<K> }
  | { readonly type: "removed"; readonly key: string }

/**
 * A call that has not succeeded. `outcome` "refused": nothing has changed. "unknown": no answer came, and a
 * change may have been made, or is made later.
 */
export class StoreError extends Error {
  readonly outcome: "refused" | "unknown"

  constructor(message: string, outcome: StoreError["outcome"], cause?: unknown) {
    super(message, { cause })
    this.name = "StoreError"
    this.outcome = outcome
  }
}
