import type { ClientState } from "../protocol/types.ts"
import { earliest } from "./deadlines.ts"

/**
 * The states of the clients of one attachment. While nothing happens to them they are kept as text: a host may have thousands of
 * leases, and one takes some hundred bytes as text, ten times that as objects.
 */
export class States {
  #live: ClientState[] | undefined
  #parked: { readonly text: string; readonly due: number | undefined }

  constructor(states: readonly ClientState[]) {
    this.#parked = { text: JSON.stringify(states), due: earliest(states.map(({ deadline }) => deadline)) }
  }

  get list(): readonly ClientState[] {
    return this.#live ?? JSON.parse(this.#parked.text)
  }

  /** The earliest deadline; undefined for never. */
  get due(): number | undefined {
    return this.#live ? earliest(this.#live.map(({ deadline }) => deadline)) : this.#parked.due
  }

  /** Puts a state in place of the one there, or behind the last. */
  set(at: number, state: ClientState): void {
    this.#live ??= [...this.list]
    this.#live[at] = state
  }

  /** Keeps the states as text until the next change. */
  park(): void {
    if (this.#live) this.#parked = { text: JSON.stringify(this.#live), due: this.due }
    this.#live = undefined
  }
}
