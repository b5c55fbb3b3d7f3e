import type { PoolFile } from "../../ipam/host-local/main.ts"
import type { NodeFiles } from "../engine/surroundings.ts"
import type { Block, Kind, Owner, Records } from "../records.ts"
import type { Store, Stored, WatchEvent } from "../store.ts"
import type { Scheduler } from "./scheduler.ts"
import { StoreModel } from "./store.ts"
import type { Subject } from "./world.ts"

/** Mistakes that agents for addresses have been shipped with. Each is put around the real engine, and the simulation must notice it. */
export const faults: Readonly<Record<string, Partial<Subject>>> = {
  "the store compares nothing": { makeModel: () => new BlindStore() },
  "a claim ends with time": { makeModel: (scheduler) => new ForgetfulStore(scheduler) },
  "a block is given back before the file is without it": {
    wrap: (surroundings) => {
      const late = new LateFile(surroundings.node)
      return { ...surroundings, node: late.files, store: late.around(surroundings.store) }
    },
  },
  "a claim of another agent is taken for one's own": {
    wrap: (surroundings) => ({ ...surroundings, store: new Credulous(surroundings.store) }),
  },
  "a lost block is not noticed": {
    wrap: (surroundings) => ({ ...surroundings, store: new Unfenced(surroundings.store, surroundings.node) }),
  },
}

/** Writes over what there is. */
class BlindStore extends StoreModel {
  override create<K extends Kind>(kind: K, key: string, value: Records[K]): Stored<K> {
    return this.overwrite(kind, key, value)
  }

  override replace<K extends Kind>({ kind, key }: Stored<K>, value: Records[K]): Stored<K> {
    return this.overwrite(kind, key, value)
  }
}

/** Forgets the blocks of an owner that has changed nothing for half a minute, as with a lease of etcd. */
class ForgetfulStore extends StoreModel {
  readonly #scheduler: Scheduler
  readonly #changedMs = new Map<string, number>()

  constructor(scheduler: Scheduler) {
    super()
    this.#scheduler = scheduler
    this.follow({
      changed: ({ after }) => {
        const owner = (after?.value as { owner?: Owner } | undefined)?.owner
        if (owner) this.#changedMs.set(owner.name, scheduler.nowMs)
      },
    })
  }

  override list<K extends Kind>(kind: K): Stored<K>[] {
    this.#expire()
    return super.list(kind)
  }

  override create<K extends Kind>(kind: K, key: string, value: Records[K]): Stored<K> | undefined {
    this.#expire()
    return super.create(kind, key, value)
  }

  #expire(): void {
    for (const block of super.list("block")) {
      const changedMs = this.#changedMs.get(block.value.owner.name) ?? 0
      if (this.#scheduler.nowMs - changedMs > 30_000) super.remove(block)
    }
  }
}

/** Keeps a file that is without a block until the block's record has been removed. */
class LateFile {
  readonly files: NodeFiles
  #waiting: PoolFile | undefined

  constructor(files: NodeFiles) {
    this.files = {
      ...files,
      readPool: (pool) => this.#waiting ?? files.readPool(pool),
      writePool: (file) => {
        const before = blocksOf(files.readPool(file.pool))
        const now = blocksOf(file)
        this.#waiting = undefined
        if (before.some((block) => !now.includes(block))) this.#waiting = file
        else files.writePool(file)
      },
    }
    this.#flush = () => {
      if (this.#waiting) files.writePool(this.#waiting)
      this.#waiting = undefined
    }
  }

  readonly #flush: () => void

  around(store: Store): Store {
    return new Proxy(store, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target)
        if (typeof value !== "function") return value
        if (name !== "remove") return value.bind(target)
        return async (stored: Stored<Kind>) => {
          const isRemoved = await target.remove(stored)
          this.#flush()
          return isRemoved
        }
      },
    })
  }
}

function blocksOf(file: PoolFile | undefined): string[] {
  return (file?.sets ?? []).flatMap(({ blocks, draining }) => [...blocks, ...draining])
}

/** A store as an agent sees it that takes each block for its own which it has tried to claim. */
class Credulous implements Store {
  readonly name: string
  protected readonly store: Store
  readonly #tried = new Map<string, Block>()

  constructor(store: Store) {
    this.store = store
    this.name = store.name
  }

  identity = () => this.store.identity()
  members = () => this.store.members()
  remove = <K extends Kind>(stored: Stored<K>) => this.store.remove(stored)
  replace = <K extends Kind>(stored: Stored<K>, value: Records[K]) => this.store.replace(stored, value)

  create<K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Stored<K> | undefined> {
    if (kind === "block") this.#tried.set(key, value as Block)
    return this.store.create(kind, key, value)
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
    const mine = this.#tried.get(record.key)
    return record.kind === "block" && mine ? { ...record, value: mine as unknown as Records[K] } : record
  }
}

/** A store as an agent sees it that asks for no owner and no epoch: each block of its file is its own. */
class Unfenced extends Credulous {
  readonly #node: NodeFiles

  constructor(store: Store, node: NodeFiles) {
    super(store)
    this.#node = node
  }

  override create<K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Stored<K> | undefined> {
    return this.store.create(kind, key, value)
  }

  protected override see<K extends Kind>(record: Stored<K>): Stored<K> {
    if (record.kind !== "block") return record
    const block = record.value as Block
    if (!blocksOf(this.#node.readPool(block.pool)).includes(block.prefix)) return record
    const value: Block = { ...block, owner: this.#node.owner, state: "owned" }
    return { ...record, value: value as unknown as Records[K] }
  }
}
