import type { PoolFile } from "../../ipam/host-local/main.ts"
import type { NodeFiles } from "../engine/surroundings.ts"
import type { Block, Kind, Owner, Records } from "../records.ts"
import type { Identity, Store, Stored, WatchEvent } from "../store.ts"

/** A store as an agent sees it. */
class SeenStore implements Store {
  readonly name: string
  protected readonly store: Store

  constructor(store: Store) {
    this.store = store
    this.name = store.name
  }

  identity(): Promise<Identity> {
    return this.store.identity()
  }

  members(): Promise<readonly Owner[]> {
    return this.store.members()
  }

  create<K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Stored<K> | undefined> {
    return this.store.create(kind, key, value)
  }

  replace<K extends Kind>(stored: Stored<K>, value: Records[K]): Promise<Stored<K> | undefined> {
    return this.store.replace(stored, value)
  }

  remove<K extends Kind>(stored: Stored<K>): Promise<boolean> {
    return this.store.remove(stored)
  }

  async find<K extends Kind>(kind: K, key: string): Promise<Stored<K> | undefined> {
    const found = await this.store.find(kind, key)
    return found && this.see(found)
  }

  async list<K extends Kind>(kind: K): Promise<Stored<K>[]> {
    return (await this.store.list(kind)).map((record) => this.see(record))
  }

  async *watch<K extends Kind>(kind: K, signal: AbortSignal): AsyncIterable<WatchEvent<K>> {
    for await (const event of this.store.watch(kind, signal)) {
      if (event.type === "all") yield { ...event, records: event.records.map((record) => this.see(record)) }
      else if (event.type === "put") yield { ...event, record: this.see(event.record) }
      else yield event
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  /** A record as the agent sees it. */
  protected see<K extends Kind>(record: Stored<K>): Stored<K> {
    return record
  }
}

/** Each block that the agent has tried to claim is its own. */
export class Credulous extends SeenStore {
  readonly #tried = new Map<string, Block>()

  override create<K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Stored<K> | undefined> {
    if (kind === "block") this.#tried.set(key, value as Block)
    return super.create(kind, key, value)
  }

  protected override see<K extends Kind>(record: Stored<K>): Stored<K> {
    const mine = this.#tried.get(record.key)
    return record.kind === "block" && mine ? { ...record, value: mine as unknown as Records[K] } : record
  }
}

/** No record has an owner and an epoch: each block of the node's file is its own. */
export class Unfenced extends SeenStore {
  readonly #node: NodeFiles

  constructor(store: Store, node: NodeFiles) {
    super(store)
    this.#node = node
  }

  protected override see<K extends Kind>(record: Stored<K>): Stored<K> {
    if (record.kind !== "block") return record
    const block = record.value as Block
    if (!blocksOf(this.#node.readPool(block.pool)).includes(block.prefix)) return record
    const value: Block = { ...block, owner: this.#node.owner, state: "owned" }
    return { ...record, value: value as unknown as Records[K] }
  }
}

/** A record that is read for want of an answer to a change counts by its nonce alone, and not by its state. */
export class Hasty extends SeenStore {
  /** The nonces of changes of blocks, until they are answered or the record is read. */
  readonly #asked = new Map<string, string>()

  override create<K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Stored<K> | undefined> {
    return this.#noted(key, value, super.create(kind, key, value))
  }

  override replace<K extends Kind>(stored: Stored<K>, value: Records[K]): Promise<Stored<K> | undefined> {
    return this.#noted(stored.key, value, super.replace(stored, value))
  }

  override async find<K extends Kind>(kind: K, key: string): Promise<Stored<K> | undefined> {
    const found = await super.find(kind, key)
    const nonce = this.#asked.get(key)
    this.#asked.delete(key)
    const block = found?.value as Block | undefined
    if (!found || kind !== "block" || block?.nonce !== nonce) return found
    return { ...found, value: { ...block, state: "owned" } as unknown as Records[K] }
  }

  async #noted<T>(key: string, value: Records[Kind], answer: Promise<T | undefined>): Promise<T | undefined> {
    if ("epoch" in value) this.#asked.set(key, value.nonce)
    const made = await answer
    if (made) this.#asked.delete(key)
    return made
  }
}

/** Removes no block while its agent has stopped. */
export class Unrepentant extends SeenStore {
  isStopped = false

  override async remove<K extends Kind>(stored: Stored<K>): Promise<boolean> {
    return this.isStopped && stored.kind === "block" ? true : await super.remove(stored)
  }
}

/** The blocks that a file names. */
export function blocksOf(file: PoolFile | undefined): string[] {
  return (file?.sets ?? []).flatMap(({ blocks, draining }) => [...blocks, ...draining])
}
