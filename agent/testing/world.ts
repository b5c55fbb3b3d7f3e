import { within } from "../../integration/lab/mod.ts"
import { formatAddress, type PoolFile } from "../../ipam/host-local/main.ts"
import { Blocks, liesIn, toPrefix } from "../blocks.ts"
import { Engine, type EngineOptions } from "../engine/engine.ts"
import type { Clock, LogEvent, Memory, NodeFiles, Reservation, Surroundings, Watch } from "../engine/surroundings.ts"
import { type Block, keyOf, type Owner, type Pool } from "../records.ts"
import { MemoryCluster, type MemoryStore } from "./memory-store.ts"

/** Thrown in place of a call that a killed agent never makes. */
export class Killed extends Error {}

/** Time passes when a test says so. */
export class TestClock implements Clock {
  now = 1_000_000
  bootId = "boot-1"
  #endMs = 0
  readonly #sleepers = new Set<{ readonly atMs: number; readonly wake: () => void }>()

  bootMs(): number {
    return this.now
  }

  sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve()
    const { promise, resolve } = Promise.withResolvers<void>()
    const sleeper = { atMs: this.now + ms, wake: resolve }
    this.#sleepers.add(sleeper)
    signal.addEventListener("abort", () => resolve(), { once: true })
    return promise.finally(() => this.#sleepers.delete(sleeper))
  }

  /** Lets so much time pass: each sleeper wakes in its turn, and does what it has to do before the next. */
  async advance(ms: number): Promise<void> {
    this.#endMs = this.now + ms
    for (;;) {
      await settle()
      const next = [...this.#sleepers].sort((a, b) => a.atMs - b.atMs)[0]
      if (!next || next.atMs > this.#endMs) break
      this.now = Math.max(this.now, next.atMs)
      this.#sleepers.delete(next)
      next.wake()
    }
    this.now = this.#endMs
    await settle()
  }

  /** All stands still for so long, also in the middle of `advance`, which goes on afterwards for what it had left. */
  standStill(ms: number): void {
    this.now += ms
    this.#endMs += ms
  }
}

/** Has all promises that can go on do so. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
}

/** The disk of a node: what is there survives an agent that is killed. */
export class TestNode implements NodeFiles {
  readonly owner: Owner
  readonly files = new Map<string, PoolFile>()
  readonly taken = new Map<string, Reservation>()
  memory: Memory | undefined
  /** Is told of each call that changes something, before and after; what it throws is thrown. */
  step: (what: string) => void = () => {}
  /** Thrown by writes, such as `ENOSPC`. */
  diskFault: Error | undefined
  readonly #armed = new Set<() => void>()

  constructor(name: string, uid = `uid-${name}`) {
    this.owner = { name, uid, machineId: `machine-${name}` }
  }

  storeOf(network: string): string {
    return `/networks/${network}`
  }

  fileOf(pool: string): string {
    return `/pools/${pool}.json`
  }

  listPools(): string[] {
    return [...this.files.keys()]
  }

  readPool(pool: string): PoolFile | undefined {
    return this.files.get(pool)
  }

  writePool(file: PoolFile): void {
    this.#write(`write the file of ${file.pool}`, () => this.files.set(file.pool, file))
  }

  removePool(pool: string): void {
    this.#write(`remove the file of ${pool}`, () => this.files.delete(pool))
  }

  takenAddresses(): readonly string[] {
    return [...this.taken.keys()]
  }

  reservations(): readonly Reservation[] {
    return [...this.taken.values()]
  }

  reservationsIn(_: string, prefix: string): readonly Reservation[] {
    this.step(`look for reservations in ${prefix}`)
    const { first, last, family } = toPrefix(prefix)
    return this.reservations().filter(({ address }) => {
      const at = toPrefix(address)
      return at.family === family && at.first >= first && at.first <= last
    })
  }

  watchReservations(_: string, changed: () => void): Watch {
    return { arm: () => void this.#armed.add(changed), [Symbol.dispose]: () => this.#armed.delete(changed) }
  }

  readMemory(): Memory | undefined {
    return this.memory
  }

  writeMemory(memory: Memory): void {
    this.#write("write the memory", () => {
      this.memory = structuredClone(memory)
    })
  }

  /** host-local's ADD: an address of each family, or `undefined`. */
  add(id: string, pool = "pods"): string[] | undefined {
    const file = this.files.get(pool)
    const addresses = file?.sets.map((set) => this.#free(set))
    const isWhole = addresses?.every((address) => address !== undefined) === true
    if (isWhole) for (const address of addresses) this.taken.set(address, { address, id, ifName: "eth0" })
    this.#changed()
    return isWhole ? addresses : undefined
  }

  /** host-local's DEL. */
  del(id: string): void {
    for (const [address, reservation] of this.taken) if (reservation.id === id) this.taken.delete(address)
    this.#changed()
  }

  #changed(): void {
    const armed = [...this.#armed]
    this.#armed.clear()
    for (const changed of armed) changed()
  }

  #free({ prefix, blockLength, blocks, reserved, gateway }: PoolFile["sets"][number]): string | undefined {
    const arithmetic = Blocks.of({ prefix, blockLength, reserved, ...(gateway !== undefined && { gateway }) })
    for (const block of blocks) {
      const kept = new Set(arithmetic.keptBackOf(block))
      const { first, last, family } = toPrefix(block)
      for (let value = first; value <= last; value++) {
        const address = formatAddress({ family, value })
        if (!kept.has(value) && !this.taken.has(address)) return address
      }
    }
    return undefined
  }

  #write(what: string, write: () => void): void {
    this.step(what)
    if (this.diskFault) throw this.diskFault
    write()
    this.step(`${what}: done`)
  }
}

/** Nodes with agents, one store, and the pool "pods". */
export class World {
  readonly cluster = new MemoryCluster()
  readonly clock = new TestClock()
  readonly log: LogEvent[] = []
  readonly nodes = new Map<string, TestNode>()
  readonly engines = new Map<string, Running>()
  /** As `Store.boundPods`, for agents that are started from then on. */
  boundPods?: NonNullable<MemoryStore["boundPods"]>
  #chance = 1

  constructor(pool: Partial<Pool> = {}) {
    this.cluster.put("registry", keyOf.registry(), { pools: { pods: { ...podPool, ...pool } } })
  }

  node(name: string): TestNode {
    const known = this.nodes.get(name)
    if (known) return known
    const node = new TestNode(name)
    this.nodes.set(name, node)
    return node
  }

  /** How often the members were asked for. */
  get asked(): number {
    return this.cluster.askedForMembers
  }

  /** Starts the agent of a node, as after a boot or a crash. */
  start(name: string, options: EngineOptions = {}): Running {
    const node = this.node(name)
    const store = this.cluster.open()
    store.step = (what) => node.step(what)
    if (this.boundPods) store.boundPods = this.boundPods
    const running = new Running(
      {
        store,
        clock: this.clock,
        node,
        randomHex: (n) => this.#random(n),
        log: (e) => this.log.push(e),
      },
      options,
    )
    this.engines.set(name, running)
    return running
  }

  async stop(): Promise<void> {
    for (const each of this.engines.values()) await each.stop()
  }

  /** The same chance each time. */
  #random(bytes: number): string {
    let text = ""
    while (text.length < 2 * bytes) {
      this.#chance = (this.#chance * 1103515245 + 12345) & 0x7fffffff
      text += (this.#chance >> 8).toString(16).padStart(6, "0").slice(0, 4)
    }
    return text.slice(0, 2 * bytes)
  }

  /** The blocks in a node's file. */
  blocksOf(name: string, pool = "pods"): string[] {
    return (this.node(name).files.get(pool)?.sets ?? [])
      .flatMap(({ blocks, draining }) => [...blocks, ...draining])
      .sort()
  }

  /** The blocks that the store says are a node's. */
  recordsOf(name: string): string[] {
    const { uid } = this.node(name).owner
    return this.blockRecords()
      .filter((value) => value.owner.name === name && value.owner.uid === uid)
      .map(({ prefix }) => prefix)
      .sort()
  }

  blockRecords() {
    return this.cluster.list("block").map(({ value }) => value as Block)
  }

  /** The node that owns the block of an address. */
  holderOf(address: string): string | undefined {
    const at = toPrefix(address)
    return this.blockRecords().find(({ prefix }) => liesIn(at, toPrefix(prefix)))?.owner.name
  }

  /** Blocks that the files of two nodes have at the same time, and addresses that two containers have. */
  doubles(): string[] {
    const files = [...this.nodes.keys()].flatMap((name) => this.blocksOf(name))
    const taken = [...this.nodes.values()].flatMap((node) => [...node.taken.keys()])
    return [...twice(files), ...twice(taken)]
  }
}

function twice(texts: readonly string[]): string[] {
  return texts.filter((text, at) => texts.indexOf(text) !== at)
}

/** An agent that works. */
export class Running {
  readonly engine: Engine
  readonly #ended = new AbortController()
  readonly #done: Promise<void>
  /** What it died of. */
  error: unknown

  constructor(surroundings: Surroundings, options: EngineOptions) {
    this.engine = new Engine(surroundings, options)
    this.#done = this.engine.run(this.#ended.signal).catch((error) => {
      this.error = error
    })
  }

  async stop(): Promise<void> {
    this.#ended.abort()
    await within(this.#done, "the agent to end")
  }
}

export const podPool: Pool = {
  name: "pods",
  prefixes: [{ prefix: "10.64.0.0/24", blockLength: 28, reserved: [] }],
  routes: [{ dst: "0.0.0.0/0" }],
  network: "pods-net",
  quarantineS: 3600,
  routing: "none",
}
