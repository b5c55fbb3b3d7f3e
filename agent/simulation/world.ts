import { drainMicrotasks } from "bun:jsc"
import type { Chance } from "../../integration/lab/mod.ts"
import type { Surroundings } from "../engine/surroundings.ts"
import { type Block, keyOf, type Pool } from "../records.ts"
import { type Caller, type Network, StoreLink } from "./link.ts"
import { Killed, Machine } from "./node.ts"
import { disorderOf } from "./order.ts"
import { Referee } from "./referee.ts"
import { Scheduler } from "./scheduler.ts"
import { StoreModel } from "./store.ts"

/** What is simulated: the real engine, or one with a fault. */
export interface Subject {
  /** Runs an agent until `signal` is aborted. */
  run(surroundings: Surroundings, signal: AbortSignal): Promise<void>
  /** What an operator does who accepts a store that went backwards, before the agent starts again. */
  accept(machine: Machine): void
  /** A store with a fault. */
  makeModel?(scheduler: Scheduler): StoreModel
  /** Surroundings with a fault. */
  wrap?(surroundings: Surroundings, world: World): Surroundings
}

/** A promise that was broken. */
class Violation extends Error {
  override readonly name = "Violation"
}

/** The pool of the simulated cluster. */
export const POOL = "pods"
export const QUARANTINE_S = 40

/** The pools that clusters have: made once, since the arithmetic of a pool remembers what it has answered. */
const pools = ["10.64.0.0/28", "10.64.0.0/27", "10.64.0.0/27", "10.64.0.0/26", "10.64.0.0/25"].map((prefix) =>
  [30, 29].flatMap((blockLength) => {
    const second = `10.64.0.${2 ** (32 - blockLength)}/${blockLength}`
    return [[], [], [second]].map((reserved): Pool => {
      const prefixes = [{ prefix, blockLength, gateway: "10.64.0.1", reserved }]
      return { name: POOL, prefixes, routes: [], network: "net", quarantineS: QUARANTINE_S, routing: "none" }
    })
  }),
)

/** A node that is gone for good: it had the block that was reserved since. */
const former = { name: "node-0", uid: "uid-0", machineId: "machine-0" }

/** How often agents look for nodes that are gone, about. */
export const SWEEP_MS = 20_000

/** Longer than the longest wait of an agent before it tries something again, and what follows from it. */
const REST_MS = 70_000

/** The interval of looks whether all is in order during the rest. */
const LOOK_MS = 5_000

/** A process of the agent, and the network in front of it. */
class Process implements Caller {
  readonly name: string
  readonly ended = new AbortController()
  isDead = false
  isPaused = false

  constructor(name: string) {
    this.name = name
  }
}

/** One node: its machine, its agent's process, and its way to the store. */
export interface Place {
  readonly machine: Machine
  readonly network: Network
  process: Process | undefined
  starts: number
}

/** Something that happens to a node, by its name. */
export type Happening = readonly [what: string, happen: (world: World, place: Place) => void]

/** A cluster that never was: machines, agents, one store, and all that may go wrong, by a seed. */
export class World {
  readonly scheduler: Scheduler
  readonly model: StoreModel
  readonly referee: Referee
  readonly places: readonly Place[]
  readonly pool: Pool
  readonly #subject: Subject
  /** All that were ever started. */
  readonly #processes: Process[] = []
  readonly #failures: unknown[] = []
  /** The store was put back to an earlier state. */
  isRestored = false

  constructor(seed: number, subject: Subject, { isTold = false } = {}) {
    this.scheduler = new Scheduler(seed, { drain: drainMicrotasks, isTold })
    this.#subject = subject
    this.model = subject.makeModel?.(this.scheduler) ?? new StoreModel()
    const { chance } = this.scheduler
    const machines: Machine[] = []
    this.referee = new Referee({ scheduler: this.scheduler, quarantineMs: QUARANTINE_S * 1000, machines })
    this.model.follow(this.referee)
    for (let at = 1; at <= 2 + chance.below(3); at++) {
      const owner = { name: `node-${at}`, uid: `uid-${at}`, machineId: `machine-${at}` }
      machines.push(new Machine(owner, this.scheduler, this.referee))
    }
    this.model.members = machines.map(({ owner }) => owner)
    const faultEvery = chance.of([0, 4, 8, 20])
    this.places = machines.map((machine) => ({
      machine,
      network: { lost: "nothing", faultEvery, holdsRequests: false, showsNoMembers: false },
      process: undefined,
      starts: 0,
    }))
    this.pool = chance.of(chance.of(pools))
    this.model.create("registry", keyOf.registry(), { pools: { [POOL]: this.pool } })
    for (const prefix of this.pool.prefixes.flatMap(({ reserved }) => reserved)) {
      const block: Block = { pool: POOL, prefix, owner: former, nonce: "0", epoch: 1, state: "quarantined" }
      this.model.create("block", keyOf.block(block), block)
      this.referee.unusable.add(prefix)
    }
  }

  /** Runs the schedule: so many steps with all that may go wrong, and then a time in which nothing does. Throws `Violation`. */
  run(steps: number, happenings: readonly Happening[]): void {
    for (const place of this.places) this.start(place)
    if (this.scheduler.once(2)) this.scheduler.settle(SWEEP_MS / 4)
    for (let left = steps; left > 0; left--) {
      if (this.scheduler.once(6)) this.#meddle(happenings)
      else this.scheduler.step()
      this.#throwFailure()
    }
    const isLong = this.scheduler.once(4)
    this.#heal()
    this.#rest(isLong)
    const disorder = disorderOf(this)
    if (disorder !== undefined) throw new Violation(disorder)
    for (const { machine } of this.places) machine.fill(POOL)
    this.#throwFailure()
  }

  #throwFailure(): void {
    const [violation] = this.referee.violations
    if (violation !== undefined) throw new Violation(violation)
    if (this.#failures.length > 0) throw this.#failures[0]
  }

  /** Starts the agent of a node, unless it runs. */
  start(place: Place): void {
    if (place.process && !place.process.isDead) return
    const { machine, network } = place
    const process = new Process(`${machine.name}#${++place.starts}`)
    place.process = process
    this.#processes.push(process)
    const link = new StoreLink({ scheduler: this.scheduler, model: this.model, network, caller: process })
    const surroundings: Surroundings = {
      store: link,
      clock: machine.clockFor(process),
      node: machine.filesFor(process),
      randomHex: (bytes) => randomHex(this.scheduler.chance, bytes),
      log: ({ message }) => this.scheduler.tell(() => `${process.name} says: ${message}`),
    }
    this.scheduler.act(
      () => `${process.name} starts`,
      () => void this.#runAgent(process, this.#subject.wrap?.(surroundings, this) ?? surroundings),
    )
  }

  async #runAgent(process: Process, surroundings: Surroundings): Promise<void> {
    try {
      await this.#subject.run(surroundings, process.ended.signal)
      if (!process.isDead) this.#failures.push(new Violation(`${process.name} ended by itself`))
    } catch (error) {
      if (!(error instanceof Killed) && !process.isDead) this.#failures.push(error)
    }
  }

  /** Ends the agent of a node, at the call that it is in. */
  kill({ process }: Place): void {
    if (!process || process.isDead) return
    this.scheduler.tell(() => `${process.name} is killed`)
    process.isDead = true
  }

  /** One of the things that happen to nodes. */
  #meddle(happenings: readonly Happening[]): void {
    const { chance } = this.scheduler
    const place = chance.of(this.places)
    const [what, happen] = chance.of(happenings)
    this.scheduler.act(
      () => `${place.machine.name}: ${what}`,
      () => happen(this, place),
    )
  }

  /** From here on nothing goes wrong. */
  #heal(): void {
    this.scheduler.tell(() => "all faults end")
    this.model.members = this.places.map(({ machine }) => machine.owner)
    for (const place of this.places) {
      const { machine, network, process } = place
      machine.endAdd()
      machine.nextWrite = "none"
      network.lost = "nothing"
      network.faultEvery = 0
      network.showsNoMembers = false
      if (process) process.isPaused = false
      if (this.scheduler.once(3)) this.kill(place)
      this.start(place)
    }
    if (!this.isRestored) return
    this.#rest(true)
    for (const place of this.places) {
      this.kill(place)
      this.#subject.accept(place.machine)
      this.start(place)
    }
  }

  /**
   * Ends all agents, the killed ones too: a signal that can still be aborted keeps those who listen to it, and with them the whole
   * world, in memory for ever.
   */
  [Symbol.dispose](): void {
    for (const process of this.#processes) {
      process.isDead = true
      process.ended.abort()
    }
    drainMicrotasks()
  }

  /** Lets time pass in which nothing goes wrong: until all is in order, or (`isLong`) until each wait of an agent has ended. */
  #rest(isLong: boolean): void {
    for (let restedMs = 0; restedMs < REST_MS; restedMs += LOOK_MS) {
      this.scheduler.settle(LOOK_MS)
      this.#throwFailure()
      if (!isLong && disorderOf(this) === undefined) return
    }
  }
}

/** Chance as text, by four bytes at once. */
function randomHex(chance: Chance, bytes: number): string {
  let text = ""
  while (text.length < 2 * bytes)
    text += chance
      .below(2 ** 32)
      .toString(16)
      .padStart(8, "0")
  return text.slice(0, 2 * bytes)
}
