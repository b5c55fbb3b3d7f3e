import type { Fd } from "../../../pkg/libc/mod.ts"
import type { Result } from "../../../pkg/types/mod.ts"
import type { DhcpConfig } from "../config.ts"
import type { Change, Lease } from "../protocol/mod.ts"
import { Exchange } from "./exchange.ts"
import { applyChange, applyMtu, lower, type Site } from "./interface.ts"
import { keyOf, type LeaseRecord, type Progress, type Subject } from "./journal.ts"
import { namespaceLives, Place } from "./place.ts"
import { missingOf, resultOf } from "./result.ts"
import type { Surroundings } from "./surroundings.ts"
import { soonest } from "./timers.ts"

/** A call that waits for a lease. */
export interface Waiter {
  answer(result: Result): void
  refuse(reason: string): void
}

/** Whose a lease is. */
export type Owner = Pick<LeaseRecord, "containerId" | "network" | "ifName">

/** The leases of one attachment: who waits for them, what is known of them on disk, and what they change of the interface. */
export class Tenant {
  readonly key: string
  readonly config: DhcpConfig
  readonly #owner: Owner
  readonly #subject: Subject
  readonly #around: Surroundings
  readonly #waiters: Waiter[] = []
  readonly #exchange: Exchange
  #progress: Progress
  #giveUpAt: number | undefined

  private constructor(
    {
      containerId,
      network,
      ifName,
      namespace,
      link,
      config,
      progress,
      clients,
    }: Omit<LeaseRecord, "version" | "bootId" | "writtenAt" | "clock">,
    around: Surroundings,
  ) {
    this.#owner = { containerId, network, ifName }
    this.key = keyOf(this.#owner)
    this.config = config
    this.#subject = { key: this.key, config, namespace, link }
    this.#progress = progress
    this.#around = around
    const hooks = {
      before: (changes: readonly Change[], hasNewOffer: boolean) => this.#onStep(changes, hasNewOffer),
      after: (changes: readonly Change[]) => this.#onSent(changes),
      departed: () => this.#refuseAll(`"${link.name}" in "${namespace.path}" has gone`),
    }
    this.#exchange = new Exchange(this.#subject, around, hooks, clients)
  }

  /** Goes on with a lease from the journal. */
  static resume(record: LeaseRecord, around: Surroundings): Tenant {
    const tenant = new Tenant(record, around)
    if (!namespaceLives(record.namespace)) tenant.#exchange.depart()
    return tenant
  }

  /** Begins to acquire a lease for a link. Throws `CniError` or `NoLinkError` when it is not there, `SyscallError`. */
  static acquire(owner: Owner, path: string, config: DhcpConfig, around: Surroundings): Tenant {
    const place = Place.open(path, owner.ifName)
    try {
      const { namespace, link } = place
      const tenant = new Tenant({ ...owner, namespace, link, config, progress: "acquiring", clients: [] }, around)
      tenant.#giveUpAt = around.now() + tenant.#patienceMs
      tenant.#exchange.begin(place)
      return tenant
    } catch (error) {
      place[Symbol.dispose]()
      throw error
    }
  }

  get network(): string {
    return this.#owner.network
  }

  /** The leases that hold. */
  get leases(): Lease[] {
    return this.#exchange.leases
  }

  /** The result of ADD; undefined while there is none, or none any more. */
  get result(): Result | undefined {
    return this.#progress === "held" && this.leases.length > 0 ? resultOf(this.leases, this.config) : undefined
  }

  /** Whether the namespace has gone, or the link in it. */
  get isGone(): boolean {
    return this.#exchange.isGone
  }

  /** Whether it is about what is at a path now: the same namespace, with the same link. */
  isAbout(path: string): boolean {
    const namespace = { ...this.#subject.namespace, path }
    if (this.isGone || !namespaceLives(namespace)) return false
    using place = Place.find({ namespace, link: this.#subject.link })
    return place !== undefined
  }

  /** The descriptors to wait for. */
  get descriptors(): Fd[] {
    return this.#exchange.descriptors
  }

  /** When `onTime` is to be called, or, without a namespace, when it is over; undefined for never. */
  get due(): number | undefined {
    return soonest(this.isGone ? this.leases.map(({ expiresAt }) => expiresAt) : [this.#exchange.due, this.#giveUpAt])
  }

  /** Whether nothing of it is left to be done: its namespace has gone, and the lease has expired. */
  get isOver(): boolean {
    const now = this.#around.now()
    return this.isGone && this.leases.every(({ expiresAt }) => expiresAt !== undefined && expiresAt <= now)
  }

  wait(waiter: Waiter): void {
    this.#waiters.push(waiter)
  }

  /** A caller has gone. Returns whether nothing waits for the lease any more. */
  abandon(waiter: Waiter): boolean {
    const at = this.#waiters.indexOf(waiter)
    if (at !== -1) this.#waiters.splice(at, 1)
    return this.#progress === "acquiring" && this.#waiters.length === 0
  }

  onReadable(buffer: Uint8Array): void {
    this.#exchange.onReadable(buffer)
  }

  /** Does what is due. Returns false when it has given up, and is of no use any more. */
  onTime(): boolean {
    const now = this.#around.now()
    if (this.#giveUpAt === undefined || now < this.#giveUpAt) {
      this.#exchange.onTime(now)
      return true
    }
    const [reason, waiters] = [this.#reason(), this.#waiters.splice(0)]
    this.release()
    for (const waiter of waiters) waiter.refuse(reason)
    return false
  }

  /** Looks whether the namespace is where it was, if something of it is open. */
  look(): void {
    this.#exchange.look()
  }

  /** Before anything is sent: what is requested may be leased, answer or not. */
  #onStep(changes: readonly Change[], hasNewOffer: boolean): void {
    if (this.#progress === "acquiring" && hasNewOffer) this.#write(false)
    for (const change of changes) this.#apply(change)
  }

  #onSent(changes: readonly Change[]): void {
    if (this.#progress === "acquiring") {
      if (this.#exchange.isBound && this.#exchange.states.length === (this.config.dhcpv6 ? 2 : 1)) this.#settle()
    } else if (this.#progress === "held") {
      if (changes.length > 0) this.#write(true)
      const [client] = this.#exchange.states
      if (client?.phase === "waiting" && !client.lease) this.#onSite(lower) // it is up only while it asks
    }
  }

  /** Changes the interface. What the plugin that made it does itself, before ADD has been answered, is left to it. */
  #apply(change: Change): void {
    const { address } = change.lease
    if (change.kind === "lost") this.#around.log(`${this.key}: lost ${address}: ${change.why}`)
    try {
      this.#onSite((site) => {
        if (this.#progress === "releasing") return
        if (this.#progress === "held") applyChange(site, change)
        else if (change.kind !== "lost") applyMtu(site, change.lease)
      })
    } catch (error) {
      this.#around.log(`${this.key}: Cannot change the interface for ${address}: ${String(error)}`)
    }
  }

  #onSite(act: (site: Site) => void): void {
    this.#exchange.onLink((inside, link) => act({ inside, link, config: this.config }))
  }

  #settle(): void {
    this.#progress = "held"
    this.#giveUpAt = undefined
    this.#write(true)
    const result = resultOf(this.leases, this.config)
    for (const waiter of this.#waiters.splice(0)) waiter.answer(result)
  }

  get #patienceMs(): number {
    return Math.min(this.config.timeoutMs ?? Number.POSITIVE_INFINITY, this.#around.options.resendTimeoutMs)
  }

  /** Why there is no lease yet, for the error of ADD. */
  #reason(): string {
    const { link, namespace } = this.#subject
    const { states } = this.#exchange
    const where = `"${link.name}" (${link.mac}) in "${namespace.path}"`
    const seen = states.flatMap((client) => client.seen ?? []).at(-1) ?? "none: is the parent's switch port right?"
    return `no more tries: no ${missingOf(states)} in ${this.#patienceMs / 1000} s on ${where}; last packet seen: ${seen}`
  }

  /** Gives the leases back to their servers, and forgets them. What cannot be sent is left to expire. */
  release(): void {
    this.#progress = "releasing"
    this.#giveUpAt = undefined
    this.#exchange.stop()
    const { states } = this.#exchange
    if (states.some(({ lease, offer }) => lease ?? offer)) this.#write(false)
    for (const at of states.keys()) {
      try {
        if (!this.isGone) this.#exchange.advance(at, { kind: "release" })
      } catch (error) {
        this.#around.log(`${this.key}: Cannot release its address, which is left to expire: ${String(error)}`)
      }
    }
    this.#around.journal.remove(this.key)
    this.close("it was given back")
  }

  /** Lets go of all that is open, and tells those who wait. */
  close(reason: string): void {
    this.#refuseAll(reason)
    this.#exchange.close()
  }

  #refuseAll(reason: string): void {
    for (const waiter of this.#waiters.splice(0)) waiter.refuse(reason)
  }

  #write(durable: boolean): void {
    const { bootId, journal, now } = this.#around
    const times = { writtenAt: Date.now(), clock: now() }
    const { namespace, link } = this.#subject
    const about = { ...this.#owner, namespace, link, config: this.config, progress: this.#progress }
    journal.write({ version: 1, bootId, ...times, ...about, clients: this.#exchange.states }, durable)
  }
}
