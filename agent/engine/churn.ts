import type { Pool } from "../records.ts"
import { type Agent, usedOf } from "./agent.ts"
import { freeOf, type Holding, needsBlock } from "./decide.ts"
import type { Surroundings, Watch } from "./surroundings.ts"
import type { Timetable } from "./timetable.ts"

/** Follows the containers that come and go by their reservations: says when a pass is due, and where one has asked in vain. */
export class Churn implements Disposable {
  readonly #surroundings: Surroundings
  readonly #timetable: Timetable
  readonly #used: Agent["used"]
  readonly #watches = new Map<string, Watch>()
  /** The networks of which a container has asked for an address while there was none. */
  readonly #asked = new Set<string>()
  /** The networks that have no address left, and those that have fewer in hand than they should. */
  readonly #empty = new Set<string>()
  readonly #low = new Set<string>()
  #taken = 0
  #isFilling = true

  constructor(surroundings: Surroundings, timetable: Timetable, used: Agent["used"]) {
    this.#surroundings = surroundings
    this.#timetable = timetable
    this.#used = used
  }

  /** Follows a network from now on. To be called before its reservations are read. */
  follow(network: string): void {
    const watch =
      this.#watches.get(network) ?? this.#surroundings.node.watchReservations(network, () => this.#changed(network))
    this.#watches.set(network, watch)
    watch.arm()
  }

  isAsked(network: string): boolean {
    return this.#asked.has(network)
  }

  /** A pass over a pool has ended with these blocks, by prefix. `hasGiven`: those that wait were given one. */
  passed({ network }: Pool, holdings: readonly Holding[][], hasGiven: boolean): void {
    const isEmpty = holdings.some((each) => freeOf(each) === 0n)
    mark(this.#empty, network, isEmpty)
    mark(
      this.#low,
      network,
      holdings.some((each) => needsBlock(each, { others: "none", isOwn: false })),
    )
    if (!isEmpty || hasGiven) this.#asked.delete(network)
  }

  /** A pass over all pools has ended: containers go where fewer addresses are taken than before. One that comes is seen before its address is. */
  count(agent: Agent, pools: readonly Pool[]): void {
    const before = this.#taken
    this.#taken = 0
    for (const pool of pools) for (const count of usedOf(agent, pool).values()) this.#taken += count
    this.#isFilling = this.#taken >= before
  }

  #changed(network: string): void {
    this.#used.clear()
    if (this.#empty.has(network)) this.#asked.add(network)
    if (this.#low.has(network)) {
      this.#watches.get(network)?.arm() // an ADD that finds no address leaves nothing but its change
      this.#timetable.wake()
    } else this.#timetable.churn(this.#isFilling)
  }

  [Symbol.dispose](): void {
    for (const watch of this.#watches.values()) watch[Symbol.dispose]()
    this.#watches.clear()
  }
}

function mark(set: Set<string>, name: string, isIn: boolean): void {
  if (isIn) set.add(name)
  else set.delete(name)
}
