import type { PoolFile } from "../../ipam/host-local/main.ts"
import type { LogEvent, NodeFiles } from "../engine/surroundings.ts"
import type { Kind, Owner, Records } from "../records.ts"
import type { Store, Stored } from "../store.ts"
import type { Scheduler } from "./scheduler.ts"
import { blocksOf, Credulous, Hasty, Unfenced, Unrepentant } from "./seen-stores.ts"
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
  "a claim is used whose late answer says that it is in quarantine": {
    wrap: (surroundings) => ({ ...surroundings, store: new Hasty(surroundings.store) }),
  },
  "a claim stands that was made in a store from a backup": {
    wrap: (surroundings) => {
      const store = new Unrepentant(surroundings.store)
      const log = (event: LogEvent) => {
        if (event.message.startsWith("The store cannot be trusted")) store.isStopped = true
        surroundings.log(event)
      }
      return { ...surroundings, store, log }
    },
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
