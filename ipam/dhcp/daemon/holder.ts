import { AF_INET6, type Owner, type Result } from "../../../pkg/types/mod.ts"
import type { DhcpConfig } from "../config.ts"
import type { Change, ClientEvent, ClientState } from "../protocol/types.ts"
import { Clients } from "./clients.ts"
import { earliest } from "./deadlines.ts"
import type { ContainerLink, Environment, Waiter } from "./environment.ts"
import { deletedError, keyOf, type LeaseRecord, type Subject } from "./journal.ts"
import { client6ConfigOf, clientConfigOf, patienceMsOf } from "./options.ts"
import { noLeaseReason, resultOf } from "./result.ts"

/** The timeout for a link that is up to pass frames. DISCOVER is sent after this time in any case. */
const CARRIER_MS = 5_000
/** The maximum of frames that a holder reads before the daemon serves other holders. */
const FRAMES_MAX = 64
type Acquired = Pick<LeaseRecord, "progress" | "clients">
const START = { kind: "start" } as const

/**
 * An attachment that acquires or has leases, with a DHCPv4 client, and a DHCPv6 client if configured. A holder passes
 * frames and passed deadlines to the clients, carries out their steps on the link, writes the record, and answers
 * waiting calls. The progress in the record is "acquiring" until ADD is answered, then "held", and "releasing" after
 * DEL.
 */
export class Holder {
  readonly key: string
  readonly subject: Subject
  readonly #env: Environment
  readonly link: ContainerLink
  readonly clients: Clients
  readonly #waiters = new Set<Waiter>()
  #progress: LeaseRecord["progress"]
  #giveUpAt: number | undefined
  #hasReportedLoss = false
  /** The time at which clients start even if the link passes no frames; undefined once all clients have started. */
  #startBy: number | undefined

  private constructor(subject: Subject, env: Environment, link: ContainerLink, { progress, clients }: Acquired) {
    const { containerId, network, ifName, namespace, link: place, config } = subject
    this.key = keyOf(subject)
    this.subject = { containerId, network, ifName, namespace, link: place, config }
    this.#env = env
    this.link = link
    this.clients = new Clients(clients, config.dhcpv6 ? 2 : 1, env.now())
    this.#progress = progress
  }

  static resume(record: LeaseRecord, env: Environment): Holder {
    const holder = new Holder(record, env, env.links.at(record), record)
    holder.checkNamespace()
    return holder
  }

  /** Starts to acquire leases for a link. Throws `CniError`, `NoLinkError`, `SyscallError` and `NetlinkError`. */
  static acquire(owner: Owner, path: string, config: DhcpConfig, env: Environment): Holder {
    const link = env.links.open(path, owner.ifName)
    try {
      const holder = new Holder({ ...owner, ...link.record, config }, env, link, { progress: "acquiring", clients: [] })
      const now = env.now()
      holder.#giveUpAt = now + patienceMsOf(config, env.options)
      if (config.dhcpv6) link.refuseRouterAdvertisements()
      link.setUp()
      holder.#startBy = now + CARRIER_MS
      holder.#start(now)
      return holder
    } catch (error) {
      link.close()
      throw error
    }
  }

  /** The result of ADD; undefined before ADD is answered, and after the leases are lost. */
  get result(): Result | undefined {
    if (this.#progress !== "held" || this.clients.leases.length === 0) return undefined
    return resultOf(this.clients.leases, this.subject.config)
  }

  /** Whether the namespace or the link was deleted. */
  get isGone(): boolean {
    return this.link.isGone
  }

  /** Whether the holder can be removed: the link was deleted, and the leases have expired. */
  get isOver(): boolean {
    const now = this.#env.now()
    return this.isGone && this.clients.leases.every(({ expiresAt }) => expiresAt !== undefined && expiresAt <= now)
  }

  /** The time of the next `onTime` call; for a deleted link, the time when the leases expire. Undefined for never. */
  get due(): number | undefined {
    if (this.isGone) return earliest(this.clients.leases.map(({ expiresAt }) => expiresAt))
    return earliest([this.clients.due, this.#startBy, this.link.checkAt, this.#giveUpAt])
  }

  wait(waiter: Waiter): void {
    this.#waiters.add(waiter)
    this.#noticeDeletion()
  }

  /** Removes a caller that closed its connection. Returns true if ADD is not answered yet and no other caller waits. */
  abandon(waiter: Waiter): boolean {
    this.#waiters.delete(waiter)
    return this.#progress === "acquiring" && this.#waiters.size === 0
  }

  onReadable(buffer: Uint8Array): void {
    if (this.link.readEvents(buffer)) this.#start(this.#env.now())
    for (const [at, { config }] of this.clients.states.entries()) {
      for (let count = 0; count < FRAMES_MAX; count++) {
        const frame = this.link.receive(config, buffer)
        if (!frame) break
        this.#advance(at, { kind: "frame", frame })
      }
    }
    this.#noticeDeletion()
  }

  /** Handles passed deadlines. If ADD has timed out, releases the leases and returns false: remove the holder then. */
  onTime(): boolean {
    const now = this.#env.now()
    if (this.#giveUpAt !== undefined && now >= this.#giveUpAt) {
      this.release(noLeaseReason(this.subject, this.clients.states, this.#env.options))
      return false
    }
    if (now >= (this.link.checkAt ?? Infinity)) this.link.check()
    this.#start(now)
    for (const [at, event] of this.isGone ? [] : this.clients.takeDue(now)) this.#advance(at, event)
    this.#noticeDeletion()
    return true
  }

  /** Closes the link permanently if its namespace is no longer at its path. */
  checkNamespace(): void {
    this.link.check()
    this.#noticeDeletion()
  }

  /**
   * Releases the leases, removes their record, and refuses waiting calls. Continues after errors, such as a full disk,
   * and logs them. If the message to the server cannot be sent, the lease lasts until it expires on the server.
   */
  release(reason = "the lease was released during the call"): void {
    this.#progress = "releasing"
    this.#giveUpAt = this.#startBy = undefined
    const { states } = this.clients
    if (states.some(({ lease, offer }) => lease ?? offer)) this.#attempt("write the record", () => this.#write(false))
    for (const at of states.keys()) {
      this.#attempt("release the address, which will expire", () => {
        if (!this.isGone) this.#advance(at, { kind: "release" })
      })
    }
    this.#attempt("remove the record", () => this.#env.journal.remove(this.key))
    this.close(reason)
  }

  #attempt(what: string, act: () => void): void {
    try {
      act()
    } catch (error) {
      this.#env.log(`${this.key}: Cannot ${what}: ${String(error)}`)
    }
  }

  /** Closes the link, and refuses the waiting calls. */
  close(reason: string): void {
    for (const waiter of this.#waiters) waiter.refuse(reason)
    this.#waiters.clear()
    this.#closeLink()
  }

  #closeLink(): void {
    this.link.close()
    this.clients.park()
  }

  #noticeDeletion(): void {
    if (!this.isGone) return
    const { message } = deletedError(this.subject)
    if (!this.#hasReportedLoss && this.#progress === "held")
      this.#env.log(`${this.key}: renewal of the leases stopped: ${message}`)
    this.#hasReportedLoss = true
    this.#startBy = undefined
    this.close(message)
  }

  /** Starts the clients that have not started, if the link passes frames and, for DHCPv6, has a link-local address. */
  #start(now: number): void {
    if (this.#startBy === undefined) return
    const { subject } = this
    const { options } = this.#env
    this.link.watch() // before the check, so that no change is missed
    if (now < this.#startBy && !this.link.passesFrames) return
    this.link.sendDelayed()
    if (this.clients.states.length === 0) this.#advance(this.clients.add(clientConfigOf(subject, options)), START)
    if (!this.clients.areAll && !this.isGone) {
      const { linkLocal } = this.link
      this.#startBy = now + CARRIER_MS
      if (linkLocal === undefined) return
      this.#advance(this.clients.add(client6ConfigOf(subject, options, linkLocal)), START)
    }
    this.#startBy = undefined
    this.link.unwatch()
  }

  /** Passes an event to a client and carries out its step, in an order in which a kill of the daemon does no harm. */
  #advance(at: number, event: ClientEvent): void {
    const { now, random } = this.#env
    if (event.kind !== "frame") this.#readdress(at)
    const step = this.clients.advance(at, event, { now: now(), random })
    if (!step) return
    const { before, state, send, changes } = step
    // The server may lease the requested address even if its answer is lost.
    if (this.#progress === "acquiring" && state.offer && state.offer !== before.offer) this.#write(false)
    for (const change of changes) this.#apply(change)
    for (const frame of send) this.#send(state, frame)
    if (this.isGone) return
    this.#keep(changes)
    if (!this.clients.areListening && this.#startBy === undefined) this.#closeLink()
  }

  /** Makes a client send from the link's current addresses, which tuning, bonds and bridges change after ADD. */
  #readdress(at: number): void {
    const config = this.clients.states[at]?.config
    const mac = config && this.link.mac
    if (mac === undefined || mac === config?.mac) return
    this.#env.log(`${this.key}: the hardware address changed from ${config?.mac} to ${mac}`)
    const linkLocal = config?.family === AF_INET6 ? this.link.linkLocal : undefined
    this.clients.readdress(at, { mac, ...(linkLocal !== undefined && { linkLocal }) })
  }

  #send({ config, lease }: ClientState, frame: Uint8Array): void {
    if (this.link.send(config, frame, lease === undefined)) return
    this.#startBy ??= this.#env.now() + CARRIER_MS
    this.#start(this.#env.now())
  }

  /**
   * Applies a change to the interface. Before ADD is answered, applies only the MTU, because the plugin sets the rest.
   */
  #apply(change: Change): void {
    const { config } = this.subject
    const { address } = change.lease
    if (change.kind === "lost") this.#env.log(`${this.key}: lost ${address}: ${change.why}`)
    try {
      if (this.#progress === "held") this.link.apply(change, config)
      else if (this.#progress === "acquiring" && change.kind !== "lost") this.link.applyMtu(change.lease, config)
    } catch (error) {
      this.#env.log(`${this.key}: Cannot change the interface for ${address}: ${String(error)}`)
    }
  }

  /**
   * Answers ADD once all clients have a lease, and records later changes. Sets the interface down if the DHCPv4 client
   * has lost its lease and no server answers.
   */
  #keep(changes: readonly Change[]): void {
    if (this.#progress === "acquiring" && this.#startBy === undefined && this.clients.areBound) {
      this.#progress = "held"
      this.#giveUpAt = undefined
      this.#write(true)
      for (const waiter of this.#waiters) waiter.answer(resultOf(this.clients.leases, this.subject.config))
      this.#waiters.clear()
    } else if (this.#progress === "held") {
      if (changes.length > 0) this.#write(true)
      const [client] = this.clients.states
      if (client?.phase === "waiting" && !client.lease) this.link.setDown()
    }
  }

  #write(durable: boolean): void {
    const { bootId, journal, now } = this.#env
    const state = { progress: this.#progress, clients: this.clients.states }
    journal.write({ version: 1, bootId, writtenAt: Date.now(), clock: now(), ...this.subject, ...state }, durable)
  }
}
