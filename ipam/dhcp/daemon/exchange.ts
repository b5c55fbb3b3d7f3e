import { type Fd, isErrno, type PacketSocket } from "../../../pkg/libc/mod.ts"
import type { Link, RouteSocket } from "../../../pkg/netlink/mod.ts"
import {
  advance,
  type Change,
  type ClientConfig,
  type ClientEvent,
  type ClientState,
  createClient,
  type Lease,
  type Step,
} from "../protocol/mod.ts"
import type { Subject } from "./journal.ts"
import { client6ConfigOf, clientConfigOf } from "./options.ts"
import { namespaceLives, Place } from "./place.ts"
import { States } from "./states.ts"
import type { Surroundings } from "./surroundings.ts"
import { soonest } from "./timers.ts"

/** How long the kernel may take until a link that is up passes frames; DISCOVER is sent after that in any case. */
const CARRIER_MS = 5_000
/** How often it is looked whether a namespace still is where it was, while something of it is open. */
const LOOK_MS = 2_000
/** Frames taken in one go; the others' turn comes after them. */
const FRAMES_MAX = 64

/** What the holder of the leases does about what happens to them. */
export interface Hooks {
  /** Before anything of a step is sent: what may be leased by it is to be remembered, and the interface to be changed. */
  before(changes: readonly Change[], hasNewOffer: boolean): void
  after(changes: readonly Change[]): void
  /** The namespace has gone, or the link in it. */
  departed(): void
}

/** The DHCP clients of one link, and the packets between them and their servers. Between two exchanges nothing of the container is open. */
export class Exchange {
  readonly #subject: Subject
  readonly #around: Surroundings
  readonly #hooks: Hooks
  readonly #states: States
  readonly #listening = new Set<number>()
  /** Clients from the journal that something was due for while no daemon ran. */
  readonly #overdue: Set<number>
  #place: Place | undefined
  /** What is sent as soon as frames pass. */
  readonly #delayed: [ClientConfig, Uint8Array][] = []
  /** Until when frames may not pass yet; undefined once all clients have started. */
  #startBy: number | undefined
  #lookAt = 0
  #isGone = false

  constructor(subject: Subject, around: Surroundings, hooks: Hooks, states: readonly ClientState[]) {
    this.#subject = subject
    this.#around = around
    this.#hooks = hooks
    this.#states = new States(states)
    this.#overdue = new Set(states.flatMap(({ deadline = Infinity }, at) => (deadline <= around.now() ? at : [])))
  }

  get states(): readonly ClientState[] {
    return this.#states.list
  }

  /** The leases that hold. */
  get leases(): Lease[] {
    return this.states.flatMap(({ lease }) => lease ?? [])
  }

  get isGone(): boolean {
    return this.#isGone
  }

  /** Whether every client has a lease. */
  get isBound(): boolean {
    const { states } = this
    const bound = states.filter(({ phase }) => phase === "bound" || phase === "renewing" || phase === "rebinding")
    return this.#startBy === undefined && bound.length > 0 && bound.length === states.length
  }

  /** The descriptors to wait for. */
  get descriptors(): Fd[] {
    return this.#place?.descriptors ?? []
  }

  /** When `onTime` is to be called; undefined for never. */
  get due(): number | undefined {
    if (this.#isGone) return undefined
    return soonest([this.#states.due, this.#startBy, this.#place ? this.#lookAt : undefined])
  }

  /** Brings the link up and begins on it, as soon as frames pass. Throws `SyscallError`, `NetlinkError`. */
  begin(place: Place): void {
    this.#place = place
    if (this.#subject.config.dhcpv6) place.refuseRouterAdvertisements()
    place.raise()
    const now = this.#around.now()
    this.#startBy = now + CARRIER_MS
    this.#lookAt = now + LOOK_MS
    this.#start(now)
  }

  /** Takes the frames that have come, and looks after changes of the link. */
  onReadable(buffer: Uint8Array): void {
    const place = this.#place
    if (place?.heedsEvents) {
      place.readEvents(buffer)
      this.#start(this.#around.now())
    }
    for (const [family, socket] of place?.open ?? []) {
      const at = this.states.findIndex(({ config }) => config.family === family)
      for (let count = 0; count < FRAMES_MAX && this.#place === place && place; count++) {
        const frame = this.#receive(place, socket, buffer)
        if (!frame) break
        this.advance(at, { kind: "frame", frame })
      }
    }
  }

  #receive(place: Place, socket: PacketSocket, buffer: Uint8Array): Uint8Array | undefined {
    try {
      return socket.receive(buffer)
    } catch (error) {
      if (!isErrno(error, "ENETDOWN", "ENXIO")) throw error
      if (!place.isThere) this.depart() // else it is down: what is sent the next time brings it up, or is in vain
      return undefined
    }
  }

  /** Does what is due. */
  onTime(now: number): void {
    if (this.#place && now >= this.#lookAt) this.look()
    if (!this.#isGone && this.#startBy !== undefined) this.#start(now)
    for (const [at, { deadline }] of this.states.entries()) {
      if (this.#isGone || deadline === undefined || now < deadline) continue
      this.advance(at, { kind: this.#overdue.delete(at) ? "start" : "time" })
    }
  }

  /** Looks whether the namespace is where it was, if something of it is open, and lets go of it if not. */
  look(): void {
    if (!this.#place) return
    this.#lookAt = this.#around.now() + LOOK_MS
    if (!namespaceLives(this.#subject.namespace)) this.depart()
  }

  /** Starts the clients that can be: frames have to pass, and DHCPv6 needs an address of the link's own. */
  #start(now: number): void {
    if (this.#startBy === undefined || !this.#place) return
    this.#place.heedEvents() // before looking, so that no change falls between looking and waiting
    if (now < this.#startBy && !this.#place.hasCarrier) return
    for (const [config, frame] of this.#delayed.splice(0)) this.#transmit(this.#place, config, frame, false)
    if (this.states.length === 0) this.#startClient(0, clientConfigOf(this.#subject, this.#around.options))
    if (this.#subject.config.dhcpv6 && this.states.length === 1 && this.#place) {
      const { linkLocal } = this.#place
      this.#startBy = now + CARRIER_MS
      if (linkLocal === undefined) return
      this.#startClient(1, client6ConfigOf(this.#subject, this.#around.options, linkLocal))
    }
    this.#startBy = undefined
    this.#place?.ignoreEvents()
  }

  #startClient(at: number, config: ClientConfig): void {
    this.#states.set(at, createClient(config))
    this.advance(at, { kind: "start" })
  }

  /** Tells a client of an event, and does what follows, in an order in which a kill between any two steps does no harm. */
  advance(at: number, event: ClientEvent): void {
    const before = this.#states.find(at)
    if (!before) return
    const { now, random } = this.#around
    const step = advance(before, event, { now: now(), random })
    const { state, changes, listen } = step
    this.#states.set(at, state)
    if (listen) this.#listening.add(at)
    else this.#listening.delete(at)
    this.#hooks.before(changes, state.offer !== undefined && state.offer !== before.offer)
    if (!this.#send(step)) return
    this.#hooks.after(changes)
    this.#closeIfIdle()
  }

  /** False when the namespace has gone. */
  #send({ state, send }: Step): boolean {
    if (send.length === 0) return !this.#isGone
    const place = this.reopen()
    if (!place) return false
    for (const frame of send) this.#transmit(place, state.config, frame, state.lease === undefined)
    return true
  }

  #transmit(place: Place, config: ClientConfig, frame: Uint8Array, mayRaise: boolean): void {
    try {
      if (place.send(config, frame, mayRaise)) return
      this.#delayed.push([config, frame])
      this.#startBy ??= this.#around.now() + CARRIER_MS
      this.#start(this.#around.now())
    } catch (error) {
      // As good as lost on the way: it is sent again.
      if (!isErrno(error, "ENETDOWN", "ENOBUFS", "ENXIO", "EAGAIN", "EMSGSIZE")) throw error
    }
  }

  /** The link, open; undefined when it has gone. */
  reopen(): Place | undefined {
    if (this.#place || this.#isGone) return this.#place
    this.#lookAt = this.#around.now() + LOOK_MS
    this.#place = Place.find(this.#subject)
    if (!this.#place) this.depart()
    return this.#place
  }

  /** Does something with the link as it is now; nothing when it has gone. */
  onLink(act: (inside: RouteSocket, link: Link) => void): void {
    this.reopen()?.work((inside) => {
      const link = this.#place?.requireLink(inside)
      if (link) act(inside, link)
    })
  }

  #closeIfIdle(): void {
    if (this.#listening.size > 0 || this.#startBy !== undefined) return
    this.close()
    this.#states.park()
  }

  /** Lets go of all that is open. */
  close(): void {
    this.#listening.clear()
    this.#delayed.length = 0
    this.#place?.[Symbol.dispose]()
    this.#place = undefined
  }

  /** Begins nothing more. */
  stop(): void {
    this.#startBy = undefined
  }

  /** The namespace has gone, or the link: there is no way to ask for anything any more, or to give it back. */
  depart(): void {
    if (this.#isGone) return
    this.#isGone = true
    this.stop()
    this.close()
    this.#hooks.departed()
  }
}
