import type { Block, Kind } from "../records.ts"
import { type Stored, StoreError, type WatchEvent } from "../store.ts"
import { WatchPause } from "./pause.ts"
import type { Surroundings } from "./surroundings.ts"

const kinds = ["registry", "block", "node", "fixed", "want"] as const satisfies readonly Kind[]

type Tables = { [K in Kind]: Map<string, Stored<K>> }

/**
 * The records of the store as this agent knows them, by watches. They may be old by a moment: what is done by them is done by
 * compare-and-swap, or after one more question.
 */
export class View {
  readonly #tables: Tables = {
    registry: new Map(),
    block: new Map(),
    node: new Map(),
    fixed: new Map(),
    want: new Map(),
  }
  readonly #complete = new Set<Kind>()
  #newest = 0n

  /** Whether all records of all kinds have come once. */
  get isComplete(): boolean {
    return this.#complete.size === kinds.length
  }

  /** The greatest revision of a record that was ever seen: a store that has come less far went backwards. */
  get newest(): bigint {
    return this.#newest
  }

  /** Another store is the right one from now on. */
  forgetNewest(): void {
    this.#newest = 0n
  }

  records<K extends Kind>(kind: K): ReadonlyMap<string, Stored<K>> {
    return this.#tables[kind]
  }

  find<K extends Kind>(kind: K, key: string): Stored<K> | undefined {
    return this.records(kind).get(key)
  }

  /** Notes a record that a call has answered, unless a newer one is known. */
  put<K extends Kind>(record: Stored<K>): void {
    const table = this.#tables[record.kind] as Map<string, Stored<K>>
    const known = table.get(record.key)
    if (!known || known.revision <= record.revision) table.set(record.key, record)
    this.#see(record)
  }

  /** Notes that a record does not exist. */
  drop(kind: Kind, key: string): void {
    this.#tables[kind].delete(key)
  }

  take<K extends Kind>(kind: K, event: WatchEvent<K>): void {
    if (event.type === "put") this.put(event.record)
    else if (event.type === "removed") this.drop(kind, event.key)
    else {
      const table = this.#tables[kind] as Map<string, Stored<K>>
      table.clear()
      for (const record of event.records) {
        table.set(record.key, record)
        this.#see(record)
      }
      this.#complete.add(kind)
    }
  }

  #see({ revision }: Stored<Kind>): void {
    if (revision > this.#newest) this.#newest = revision
  }

  /**
   * Follows all kinds until the signal is aborted, again after each error. `changed` is told of each event; "began" is one with all
   * records: the store may have been replaced before it.
   */
  async follow(
    surroundings: Pick<Surroundings, "store" | "clock" | "randomHex">,
    signal: AbortSignal,
    changed: Changed,
  ): Promise<void> {
    await Promise.all(kinds.map((kind) => this.#followOne(kind, surroundings, signal, changed)))
  }

  async #followOne<K extends Kind>(
    kind: K,
    surroundings: Pick<Surroundings, "store" | "clock" | "randomHex">,
    signal: AbortSignal,
    changed: Changed,
  ): Promise<void> {
    for (const pause = new WatchPause(surroundings); !signal.aborted; await pause.wait(signal)) {
      try {
        for await (const event of surroundings.store.watch(kind, signal)) {
          const before = event.type === "put" ? this.find(kind, event.record.key) : undefined
          this.take(kind, event)
          if (event.type === "all") changed({ what: "began" })
          else if (event.type === "put") changed({ what: "changed", before, after: event.record })
          else changed({ what: "removed", kind, key: event.key })
        }
      } catch (error) {
        if (!(error instanceof StoreError)) throw error
      }
    }
  }
}

export type Change =
  | { readonly what: "began" }
  | { readonly what: "changed"; readonly before: Stored<Kind> | undefined; readonly after: Stored<Kind> }
  | { readonly what: "removed"; readonly kind: Kind; readonly key: string }

type Changed = (change: Change) => void

/** Whether a change can lead to work on a node: of the blocks of other nodes most cannot. `held` are the keys of the blocks in its files. */
export function concerns(change: Change, node: string, held: ReadonlySet<string>): boolean {
  if (change.what === "began") return true
  if (change.what === "removed") return change.kind !== "block" || held.has(change.key)
  const { after, before } = change
  if (after.kind === "node") return after.key === node
  if (after.kind !== "block" || held.has(after.key)) return true
  return [before, after].some((record) => {
    const block = record?.value as Block | undefined
    return block?.owner.name === node || block?.state === "quarantined"
  })
}
