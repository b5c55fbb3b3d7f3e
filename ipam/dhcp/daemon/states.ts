import type { ClientState } from "../protocol/mod.ts"
import { soonest } from "./timers.ts"

/**
 * The states of a link's clients. While nothing happens to them they are kept as text: a host may have thousands of leases, and one
 * is some hundred bytes as text, and ten times that as objects.
 */
export class States {
  #live: ClientState[] = []
  #parked: { readonly text: string; readonly due: number | undefined } | undefined

  constructor(states: readonly ClientState[]) {
    this.#live = [...states]
    this.park()
  }

  get list(): readonly ClientState[] {
    return this.#parked ? JSON.parse(this.#parked.text) : this.#live
  }

  /** When the first of them has something to do; undefined for never. */
  get due(): number | undefined {
    return this.#parked ? this.#parked.due : soonest(this.#live.map(({ deadline }) => deadline))
  }

  find(at: number): ClientState | undefined {
    return this.#wake()[at]
  }

  /** Puts a state in place of the one there, or behind the last. */
  set(at: number, state: ClientState): void {
    this.#wake()[at] = state
  }

  /** Nothing is to happen for a while. */
  park(): void {
    if (!this.#parked) this.#parked = { text: JSON.stringify(this.#live), due: this.due }
    this.#live = []
  }

  #wake(): ClientState[] {
    if (this.#parked) this.#live = JSON.parse(this.#parked.text)
    this.#parked = undefined
    return this.#live
  }
}
