import { advance, createClient } from "../protocol/client.ts"
import type { ClientConfig, ClientEvent, ClientState, Lease, Moment, Step } from "../protocol/types.ts"
import { earliest } from "./deadlines.ts"

/**
 * The clients of one attachment: index 0 for DHCPv4, 1 for DHCPv6. Because a host may have thousands of leases, the
 * states of idle clients are stored as text, which needs a tenth of the memory.
 */
export class Clients {
  #live: ClientState[] | undefined
  #parked: { readonly text: string; readonly due: number | undefined }
  /** The indexes of clients that wait for frames. */
  readonly #listening = new Set<number>()
  /** The indexes of clients whose deadline passed while no daemon ran. */
  readonly #overdue: Set<number>

  readonly #count: number

  /** `count` is the number of clients after all are added. */
  constructor(states: readonly ClientState[], count: number, now: number) {
    this.#count = count
    this.#parked = { text: JSON.stringify(states), due: earliest(states.map(({ deadline }) => deadline)) }
    this.#overdue = new Set(states.flatMap(({ deadline = Infinity }, at) => (deadline <= now ? at : [])))
  }

  get states(): readonly ClientState[] {
    return this.#live ?? JSON.parse(this.#parked.text)
  }

  /** The leases that have not been lost. */
  get leases(): Lease[] {
    return this.states.flatMap(({ lease }) => lease ?? [])
  }

  /** The earliest deadline of the clients; undefined for never. */
  get due(): number | undefined {
    return this.#live ? earliest(this.#live.map(({ deadline }) => deadline)) : this.#parked.due
  }

  get areListening(): boolean {
    return this.#listening.size > 0
  }

  get areAll(): boolean {
    return this.states.length >= this.#count
  }

  /** Whether every client has been added, and has a lease or is renewing it. */
  get areBound(): boolean {
    const isBound = ({ phase }: ClientState) => phase === "bound" || phase === "renewing" || phase === "rebinding"
    return this.areAll && this.states.every(isBound)
  }

  /** Appends a client and returns its index. */
  add(config: ClientConfig): number {
    const at = this.states.length
    this.#set(at, createClient(config))
    return at
  }

  /**
   * Returns the clients whose deadline has passed, each with the event to pass to it. If the deadline passed while no
   * daemon ran, the event makes the client ask the server whether the lease is still valid.
   */
  takeDue(now: number): (readonly [at: number, event: ClientEvent])[] {
    const due = [...this.states.entries()].filter(([, { deadline = Infinity }]) => deadline <= now)
    return due.map(([at]) => [at, { kind: this.#overdue.delete(at) ? "start" : "time" }])
  }

  /** Sets the source addresses of a client's later messages. */
  readdress(at: number, addresses: Partial<Pick<ClientConfig, "mac" | "linkLocal">>): void {
    const state = this.states[at]
    if (state) this.#set(at, { ...state, config: { ...state.config, ...addresses } })
  }

  /** Passes an event to a client. Returns the step and the previous state; undefined if there is no such client. */
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

  /** Stores the states as text until the next event. No client waits for frames until then. */
  park(): void {
    this.#listening.clear()
    if (this.#live) this.#parked = { text: JSON.stringify(this.#live), due: this.due }
    this.#live = undefined
  }
}
