/**
 * Many nodes claim their first blocks at the same time, from a real store. `cluster.ts` runs it inside the namespace where the store can be
 * reached, with a `ClaimOrder` as its argument; it prints a `Claims`. Each node is the real engine. Its files are in memory, and it is told
 * of no other node's blocks: a block that is taken costs it a request, which a real node, that watches, seldom makes.
 */
import {
  Engine,
  hostClock,
  type Kind,
  type Memory,
  type NodeFiles,
  type Owner,
  openStore,
  type Records,
  type Store,
  type StoreConfig,
  type Stored,
  type WatchEvent,
} from "../agent/mod.ts"

export interface ClaimOrder {
  readonly nodes: number
  /** The blocks that each of them needs. */
  readonly blocks: number
  readonly store: StoreConfig
}

/** What came of it; times are from the start of the first node. */
export interface Claims {
  readonly medianS: number
  readonly p99S: number
  readonly lastS: number
  readonly requests: number
  readonly writes: number
  /** Claims of a block that another node had. */
  readonly taken: number
}

/** Requests that are on their way at the same time: each has its time from when it is sent. */
const atATime = 128

/** Lets so many pieces of work run at the same time. */
class Turnstile {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(places: number) {
    this.#free = places
  }

  async through<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free === 0) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#free--
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#free++
    }
  }
}

/** One client of the store for all nodes. A watch tells the pools, and nothing else. */
class SharedStore implements Store {
  readonly name: string
  requests = 0
  writes = 0
  taken = 0
  readonly #store: Store
  readonly #turnstile = new Turnstile(atATime)
  readonly #registry: readonly Stored<"registry">[]

  constructor(store: Store, registry: readonly Stored<"registry">[]) {
    this.name = store.name
    this.#store = store
    this.#registry = registry
  }

  #ask<T>(work: () => Promise<T>): Promise<T> {
    this.requests++
    return this.#turnstile.through(work)
  }

  #write<T>(work: () => Promise<T>): Promise<T> {
    this.writes++
    return this.#ask(work)
  }

  identity = () => this.#ask(() => this.#store.identity())
  members = () => this.#ask(() => this.#store.members())
  find = <K extends Kind>(kind: K, key: string) => this.#ask(() => this.#store.find(kind, key))
  list = <K extends Kind>(kind: K) => this.#ask(() => this.#store.list(kind))
  replace = <K extends Kind>(stored: Stored<K>, value: Records[K]) =>
    this.#write(() => this.#store.replace(stored, value))
  remove = <K extends Kind>(stored: Stored<K>) => this.#write(() => this.#store.remove(stored))

  async create<K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Stored<K> | undefined> {
    const made = await this.#write(() => this.#store.create(kind, key, value))
    if (!made) this.taken++
    return made
  }

  async *watch<K extends Kind>(kind: K, signal: AbortSignal): AsyncGenerator<WatchEvent<K>> {
    const records = (kind === "registry" ? this.#registry : []) as readonly Stored<K>[]
    yield { type: "all", records }
    if (!signal.aborted) await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()))
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

/** The files of a node, in memory; `written` is told how many blocks a pool's file has. */
function filesOf(owner: Owner, written: (blocks: number) => void): NodeFiles {
  const files = new Map<string, Parameters<NodeFiles["writePool"]>[0]>()
  let memory: Memory | undefined
  return {
    owner,
    listPools: () => [...files.keys()],
    fileOf: (pool) => pool,
    readPool: (pool) => files.get(pool),
    writePool(file) {
      files.set(file.pool, file)
      written(file.sets.reduce((sum, { blocks }) => sum + blocks.length, 0))
    },
    removePool: (pool) => void files.delete(pool),
    storeOf: (network) => network,
    takenAddresses: () => [],
    reservations: () => [],
    reservationsIn: () => [],
    watchReservations: () => ({ arm() {}, [Symbol.dispose]() {} }),
    readMemory: () => memory,
    writeMemory(next) {
      memory = next
    },
  }
}

/** Longer than this lasts: no node looks for others that are gone. */
const sweepMs = 1e9

async function claimAll({ nodes, blocks, store: config }: ClaimOrder): Promise<Claims> {
  await using client = await openStore(config, {})
  const store = new SharedStore(client, await client.list("registry"))
  const ended = new AbortController()
  const startMs = performance.now()
  const times: number[] = []
  const { promise: all, resolve, reject } = Promise.withResolvers<void>()
  const running = Array.from({ length: nodes }, (_, at) => {
    const name = `simulated-${at}`
    let isDone = false
    const node = filesOf({ name, uid: name, machineId: name }, (count) => {
      if (isDone || count < blocks) return
      isDone = true
      times.push((performance.now() - startMs) / 1000)
      if (times.length === nodes) resolve()
    })
    const randomHex = (bytes: number) => Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex")
    const engine = new Engine({ store, clock: hostClock(), node, randomHex, log: () => {} }, { sweepMs })
    return engine.run(ended.signal).catch(reject)
  })
  await all
  ended.abort()
  await Promise.all(running)
  const { requests, writes, taken } = store
  const rank = (share: number) => times[Math.min(nodes - 1, Math.floor(share * nodes))] ?? 0
  return { medianS: rank(0.5), p99S: rank(0.99), lastS: rank(1), requests, writes, taken }
}

if (import.meta.main) console.log(JSON.stringify(await claimAll(JSON.parse(process.argv[2] ?? ""))))
