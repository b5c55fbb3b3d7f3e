import { advance, createClient } from "../protocol/client.ts"
import type { ClientConfig, ClientEvent, ClientState, Lease, Moment, Step } from "../protocol/types.ts"
import { earliest } from "./deadlines.ts"

/**
 * The clients of one attachment: at 0 that of DHCPv4, at 1 that of DHCPv6. While nothing happens their states are kept
 * as text: a host may have thousands of leases, and one takes some hundred bytes as text, ten times that as objects.
 */
export class Clients {
  #live: ClientState[] | undefined
  #parked: { readonly text: string; readonly due: number | undefined }
  /** Clients that wait for frames. */
  readonly #listening = new Set<number>()
  /** Clients from the journal whose deadline has passed while no daemon ran. */
  readonly #overdue: Set<number>

  readonly #count: number

  /** `count` is the number of clients that there will be. */
  constructor(states: readonly ClientState[], count: number, now: number) {
    this.#count = count
    this.#parked = { text: JSON.stringify(states), due: earliest(states.map(({ deadline }) => deadline)) }
    this.#overdue = new Set(states.flatMap(({ deadline = Infinity }, at) => (deadline <= now ? at : [])))
  }

  get states(): readonly ClientState[] {
    return this.#live ?? JSON.parse(this.#parked.text)
  }

  /** The leases that are not lost. */
  get leases(): Lease[] {
    return this.states.flatMap(({ lease }) => lease ?? [])
  }

  /** The earliest deadline; undefined for never. */
  get due(): number | undefined {
    return this.#live ? earliest(this.#live.map(({ deadline }) => deadline)) : this.#parked.due
  }

  /** Whether a frame may mean something to one of them. */
  get areListening(): boolean {
    return this.#listening.size > 0
  }

  /** Whether every client has been added. */
  get areAll(): boolean {
    return this.states.length >= this.#count
  }

  /** Whether every client has been added, and has a lease or is renewing it. */
  get areBound(): boolean {
    const isBound = ({ phase }: ClientState) => phase === "bound" || phase === "renewing" || phase === "rebinding"
    return this.areAll && this.states.every(isBound)
  }

  /** Adds a client behind the last, and returns its index. */
  add(config: ClientConfig): number {
    const at = this.states.length
    this.#set(at, createClient(config))
    return at
  }

  /**
   * Clients whose deadline has come, with the event for each: after a restart it asks whether its lease still holds.
   */
  takeDue(now: number): (readonly [at: number, event: ClientEvent])[] {
    const due = [...this.states.entries()].filter(([, { deadline = Infinity }]) => deadline <= now)
    return due.map(([at]) => [at, { kind: this.#overdue.delete(at) ? "start" : "time" }])
  }

  /** Has a client send from these addresses from now on. */
  readdress(at: number, addresses: Partial<Pick<ClientConfig, "mac" | "linkLocal">>): void {
    const state = this.states[at]
    if (state) this.#set(at, { ...state, config: { ...state.config, ...addresses } })
  }

  /** Gives a client an event, and returns its step with the state before. Undefined when there is no such client. */
  advance(at: number, event: ClientEvent, moment: Moment): (Step & { readonly before: ClientState }) | undefined {
    const before = this.states[at]
    if (!before) return undefined
    const step = advance(before, event, moment)
    this.#set(at, step.state)
    if (step.listen) this.#listening.add(at)
    else this.#listening.delete(at)
    return { ...step, before }
  }

  #set(at: number, state: ClientState): void {
    this.#live ??= [...this.states]
    this.#live[at] = state
  }

  /** Keeps the states as text until the next event; no client waits for frames. */
  park(): void {
    this.#listening.clear()
    if (this.#live) this.#parked = { text: JSON.stringify(this.#live), due: this.due }
    this.#live = undefined
  }
}
