import { messageOf } from "../../pkg/types/mod.ts"
import type { Clock, LogEvent } from "../engine/surroundings.ts"
import type { Status } from "../status.ts"
import { sameAddresses } from "./addresses.ts"
import { Bell } from "./bell.ts"
import { planRoutes, type RoutePlan, type RouteRecords } from "./plan.ts"
import type { RoutePass } from "./sync.ts"

/** The kernel's part. */
export interface RouteKernel {
  /** The addresses by which other nodes reach this one. Throws `NetlinkError`. */
  addresses(): readonly string[]
  /** One pass over the main table. Throws `NetlinkError`. */
  sync(plan: RoutePlan): RoutePass
  /** Calls `changed` after changes of links, addresses and routes, until `signal` is aborted. */
  follow(changed: () => void, signal: AbortSignal): Promise<void>
}

export interface RouteSurroundings {
  /** The name of this node. */
  readonly node: string
  readonly clock: Clock
  readonly kernel: RouteKernel
  /** The records as they are known now; undefined until all kinds are. */
  records(): RouteRecords | undefined
  /** Has the node's record tell these addresses. */
  publish(addresses: readonly string[]): void
  log(event: LogEvent): void
}

/** Changes that come within this time are done in one pass. */
const TOGETHER_MS = 100
/** A pass takes a twentieth of the time at most. */
const REST = 20
/** The kernel does not tell of all that removes a route. */
const CHECK_MS = 300_000

/**
 * Keeps the routes of this node to the blocks of the others, and has its addresses published. It looks at the host's network after its changes,
 * after changes of the records from which other routes follow, and every five minutes. Routes stay when it ends.
 */
export class RouteKeeper {
  readonly #surroundings: RouteSurroundings
  readonly #bell = new Bell()
  #addresses: readonly string[] | undefined
  /** The host's network has changed, or could not be changed, since it was looked at. */
  #mustLook = true
  /** What was asked of the kernel last. */
  #plan: RoutePlan | undefined
  #status: NonNullable<Status["routes"]> = { wanted: 0, faults: [] }

  constructor(surroundings: RouteSurroundings) {
    this.#surroundings = surroundings
  }

  /** For the agent's status. */
  get status(): NonNullable<Status["routes"]> {
    return this.#status
  }

  /** The records have changed. */
  wake(): void {
    this.#bell.ring()
  }

  /** Works until `signal` is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    this.wake()
    const following = this.#surroundings.kernel.follow(() => this.#look(), signal)
    await Promise.all([following, this.#wakeAtTimes(signal), this.#keep(signal)])
  }

  async #wakeAtTimes(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#surroundings.clock.sleep(CHECK_MS, signal)
      this.#look()
    }
  }

  #look(): void {
    this.#mustLook = true
    this.wake()
  }

  async #keep(signal: AbortSignal): Promise<void> {
    const { clock } = this.#surroundings
    while (await this.#bell.rung(signal)) {
      const began = clock.bootMs()
      this.#pass()
      await clock.sleep(Math.max(TOGETHER_MS, REST * (clock.bootMs() - began)), signal)
    }
  }

  /** One look at addresses and routes. A failure is a fault, and the next look tries again. */
  #pass(): void {
    const { kernel, node, log } = this.#surroundings
    const before = this.#status
    try {
      if (this.#mustLook) this.#lookForAddresses()
      const records = this.#surroundings.records()
      if (records === undefined) return
      const plan = planRoutes(node, records)
      if (!this.#mustLook && Bun.deepEquals(plan, this.#plan)) return
      this.#mustLook = true
      const { added, removed, faults } = kernel.sync(plan)
      this.#status = { wanted: plan.wanted.length, faults }
      this.#plan = plan
      this.#mustLook = faults.length > 0
      if (added + removed > 0)
        log({ level: "info", message: `Changed the routes to other nodes: ${added} added, ${removed} removed` })
    } catch (error) {
      this.#status = { ...before, faults: [`Cannot keep the routes to other nodes: ${messageOf(error)}`] }
    }
    const isNew = (fault: string) => !before.faults.includes(fault)
    for (const message of this.#status.faults.filter(isNew)) log({ level: "warning", message })
  }

  /** An address without another one of its family stays published: a default route may come back, and each change moves routes everywhere. */
  #lookForAddresses(): void {
    const found = this.#surroundings.kernel.addresses()
    const isIpv6 = (address: string) => address.includes(":")
    const isGone = (address: string) => !found.some((one) => isIpv6(one) === isIpv6(address))
    const addresses = [...found, ...(this.#addresses ?? []).filter(isGone)]
    if (this.#addresses && sameAddresses(this.#addresses, addresses)) return
    this.#addresses = addresses
    this.#surroundings.publish(addresses)
  }
}
