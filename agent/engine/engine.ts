import { isErrno } from "../../pkg/libc/mod.ts"
import { CniError, messageOf } from "../../pkg/types/mod.ts"
import { keyOf, type Pool } from "../records.ts"
import type { Status } from "../status.ts"
import { type PodName, StoreError } from "../store.ts"
import { type Agent, keyOfBlock, say, usedOf } from "./agent.ts"
import { Churn } from "./churn.ts"
import { CountedStore } from "./counted-store.ts"
import { passFixed } from "./fixed.ts"
import { type Held, readHeld } from "./held.ts"
import { MemoryFile } from "./memory.ts"
import { NodeRecord } from "./node-record.ts"
import { reassert } from "./ownership.ts"
import { followPods } from "./pods.ts"
import { holdingsOf, passPool } from "./pool-pass.ts"
import { Sweep, watchQuarantine } from "./quarantine.ts"
import { Resend } from "./resend.ts"
import { lostBlocks, statusOfPools } from "./status.ts"
import { StoreGuard } from "./store-guard.ts"
import type { Surroundings } from "./surroundings.ts"
import { Timetable } from "./timetable.ts"
import { type Change, concerns, View } from "./view.ts"

export interface EngineOptions {
  /** The addresses by which other nodes reach this one; `setAddresses` changes them. */
  readonly addresses?: readonly string[]
  /** The time between two looks for nodes that are gone: "60_000". It is longer in a large cluster, and never the same. */
  readonly sweepMs?: number
  /** Is told of each change of a record, after `view` has it. */
  readonly onChange?: (change: Change) => void
  /** Is told when `oldUpTo` has changed. */
  readonly onTrust?: () => void
}

/**
 * The agent of a node: keeps addresses in hand by claiming blocks, gives empty ones back, writes the pool files that host-local reads, and sees to
 * it that no block has two owners. It works in passes, one after the other: each looks at records, files and reservations, and brings
 * them into agreement. Between passes it waits for a change, and uses no processor.
 */
export class Engine {
  readonly view = new View()
  readonly #surroundings: Surroundings & { readonly store: CountedStore }
  readonly #options: EngineOptions
  readonly #timetable: Timetable
  readonly #faults = new Map<string, string>()
  readonly #used: Agent["used"] = new Map()
  readonly #churn: Churn
  readonly #node: NodeRecord
  #heldKeys: ReadonlySet<string> = new Set()
  #isStarving = false
  #pods: readonly PodName[] | undefined
  #agent: Agent | undefined
  #guard: StoreGuard | undefined

  constructor(surroundings: Surroundings, options: EngineOptions = {}) {
    const { clock, node } = surroundings
    this.#surroundings = {
      store: new CountedStore(surroundings.store, clock),
      clock,
      node,
      randomHex: (bytes) => surroundings.randomHex(bytes),
      log: (event) => surroundings.log(event),
    }
    this.#options = options
    this.#node = new NodeRecord(options.addresses ?? [])
    this.#timetable = new Timetable(this.#surroundings, options.sweepMs)
    this.#churn = new Churn(this.#surroundings, this.#timetable, this.#used)
  }

  /** Works until `signal` is aborted; what the node owns stays its own. Throws what is no error of the store or of files. */
  async run(signal: AbortSignal): Promise<void> {
    const ended = new AbortController()
    const both = AbortSignal.any([signal, ended.signal])
    const memory = new MemoryFile(this.#surroundings)
    const resend = new Resend(this.#surroundings, both)
    const agent: Agent = {
      surroundings: this.#surroundings,
      view: this.view,
      memory,
      resend,
      signal: both,
      used: this.#used,
      spareSinceMs: new Map(),
      fixedFaults: new Map(),
      requireSameStore: () => guard.require(),
    }
    const guard = new StoreGuard(agent)
    this.#agent = agent
    this.#guard = guard
    const parts = [
      this.#work(agent, new Sweep(agent)),
      this.view.follow(this.#surroundings, both, (change) => this.#changed(change)),
      followPods(this.#surroundings, both, (pods) => {
        this.#pods = pods
        this.wake()
      }),
    ]
    const failures: unknown[] = []
    const settle = (part: Promise<void>) =>
      part.catch((error) => {
        failures.push(error)
        ended.abort()
      })
    both.addEventListener("abort", () => this.wake(), { once: true })
    await Promise.all(parts.map(settle))
    this.#churn[Symbol.dispose]()
    if (failures.length > 0) throw failures[0]
  }

  /**
   * Set while the store may be one that went back: records up to this revision may be of a backup, and what was written since the backup is
   * missing until its owners have written it again.
   */
  get oldUpTo(): bigint | undefined {
    const guard = this.#guard
    if (guard?.stopped) return guard.stopped.revision
    return guard?.isInDoubt === false ? undefined : this.view.newest
  }

  /** Has a pass begin at once. */
  wake(): void {
    this.#timetable.wake()
  }

  /** Publishes other addresses of this node. */
  setAddresses(addresses: readonly string[]): void {
    this.#node.addresses = addresses
    this.wake()
  }

  /** Takes the store as it is for the right one, after it went backwards: an operator has said so. */
  acceptStore(): void {
    this.#guard?.accept()
    this.#options.onTrust?.()
    this.wake()
  }

  status(): Status {
    const { node, store } = this.#surroundings
    const agent = this.#agent
    this.#used.clear()
    const stopped = this.#guard?.stopped
    const pools = agent ? this.#pools() : []
    return {
      node: node.owner,
      store: { name: store.name, ...store.counts, ...(stopped && { stopped: stopped.reason }) },
      pools: agent ? statusOfPools(agent, pools, this.#faults) : [],
      lost: agent ? pools.flatMap((pool) => lostBlocks(agent, pool)) : [],
    }
  }

  #pools(): Pool[] {
    return Object.values(this.view.find("registry", keyOf.registry())?.value.pools ?? {})
  }

  async #work(agent: Agent, sweep: Sweep): Promise<void> {
    while (!agent.signal.aborted) {
      this.#timetable.begin()
      this.#used.clear()
      if (this.view.isComplete) await this.#pass(agent, sweep)
      await this.#timetable.wait(agent.signal)
    }
  }

  async #pass(agent: Agent, sweep: Sweep): Promise<void> {
    const pools = this.#pools()
    const isReady = await this.#attempt("", agent, async () => {
      const before = this.oldUpTo
      await this.#guard?.check()
      if (this.oldUpTo !== before) this.#options.onTrust?.()
      await this.#node.publish(agent, { isStopped: this.#guard?.stopped !== undefined })
    })
    if (!isReady) return
    for (const pool of pools) {
      if (!agent.signal.aborted) await this.#attempt(pool.name, agent, () => this.#passOne(agent, pool))
    }
    if (agent.signal.aborted) return
    await this.#attempt("", agent, async () => {
      this.#churn.count(agent, pools)
      this.#dropFiles(agent, pools)
      this.#timetable.within(watchQuarantine(agent, pools))
      if (!this.#timetable.isSweepDue) return
      this.#timetable.planSweep(this.view.records("node").size)
      this.#guard?.look()
      if (this.#guard?.stopped) return
      await sweep.run()
    })
  }

  async #passOne(agent: Agent, pool: Pool): Promise<void> {
    this.#churn.follow(pool.network)
    const stopped = this.#guard?.stopped
    if (stopped) return reassert(agent, pool, readHeld(agent.surroundings.node, pool.name), stopped.revision)
    const bound = agent.surroundings.store.boundPods ? (this.#pods ?? "unknown") : "named"
    const { hasGiven, nextMs } = await passPool(agent, pool, { isAsked: this.#churn.isAsked(pool.network), bound })
    this.#timetable.within(nextMs)
    await passFixed(agent, pool, bound)
    const held = readHeld(agent.surroundings.node, pool.name)
    const holdings = pool.prefixes.map((prefix) => holdingsOf(agent, pool, prefix, held))
    this.#churn.passed(pool, holdings, hasGiven)
  }

  /** Runs a part of a pass. What the store or a disk refuses is noted, and tried again later. */
  async #attempt(pool: string, agent: Agent, part: () => Promise<void>): Promise<boolean> {
    try {
      await part()
      this.#faults.delete(pool)
      return true
    } catch (error) {
      const isKnown = error instanceof StoreError || error instanceof CniError || isErrno(error)
      if (!isKnown) throw error
      this.#timetable.retry()
      this.#note(agent, pool, messageOf(error))
      return false
    }
  }

  #note(agent: Agent, pool: string, fault: string): void {
    if (this.#faults.get(pool) !== fault && !agent.signal.aborted) say(agent, "warning", fault, pool ? { pool } : {})
    this.#faults.set(pool, fault)
  }

  /** Removes the files of pools that no longer exist and of which this node holds nothing; notes what it holds of the others. */
  #dropFiles(agent: Agent, pools: readonly Pool[]): void {
    const { node } = agent.surroundings
    const used = new Set<string>()
    for (const pool of pools) for (const block of usedOf(agent, pool).keys()) used.add(keyOfBlock(pool.name, block))
    for (const name of node.listPools()) {
      const held = readHeld(node, name)
      for (const block of held.blocks.keys()) used.add(keyOfBlock(name, block))
      if (pools.some((each) => each.name === name)) continue
      if (held.blocks.size > 0) this.#note(agent, name, unknownPool(name, held, node.fileOf(name)))
      else if (this.view.find("registry", keyOf.registry())) node.removePool(name)
    }
    const hasRecord = (key: string) => this.view.find("block", key) !== undefined
    if (!this.#guard?.stopped) agent.memory.keepEpochs((key) => used.has(key), hasRecord)
    this.#heldKeys = used
    this.#isStarving = [...this.view.records("want").values()].some(({ value }) => value.owner.name === node.owner.name)
  }

  #changed(change: Change): void {
    if (change.what === "began") this.#guard?.doubt()
    if (this.#isStarving || concerns(change, this.#surroundings.node.owner.name, this.#heldKeys)) this.wake()
    this.#options.onChange?.(change)
  }
}

/** What is wrong with a file that has blocks of a pool which the store has not got: it was removed there by hand, or comes from a backup. */
function unknownPool(name: string, { blocks }: Held, file: string): string {
  const what = `The store has no pool "${name}", and this node has ${[...blocks.keys()].join(", ")} of it`
  return `${what}: create the pool again, or remove "${file}" when no container has an address of it`
}
