import { StoreError } from "../store.ts"
import { type Agent, say } from "./agent.ts"
import { LOST } from "./memory.ts"
import type { Memory } from "./surroundings.ts"

/** Why the agent neither claims nor releases, and the revision of the store when that was found. */
export interface Stopped {
  readonly reason: string
  readonly revision: bigint
}

/** Knows a store that was replaced, or restored from a backup: its id is another one, or it has come less far than before. */
export class StoreGuard {
  readonly #agent: Agent
  #mustLook = true
  /** How often records may have come of another store, and up to which time it was found to be the same. */
  #doubts = 1
  #settled = 0
  #stopped: Stopped | undefined

  constructor(agent: Agent) {
    this.#agent = agent
  }

  get stopped(): Stopped | undefined {
    return this.#stopped
  }

  /** Whether it is not known yet if the records that came last are of the same store. */
  get isInDoubt(): boolean {
    return this.#settled < this.#doubts
  }

  /** All records have come anew: the store may have been replaced before. */
  doubt(): void {
    this.#doubts++
    this.look()
  }

  /** The next check asks the store. */
  look(): void {
    this.#mustLook = true
  }

  /** Asks the store who it is, where that may have changed. Throws `StoreError`. */
  async check(): Promise<void> {
    if (!this.#mustLook) return
    const { surroundings, memory, view } = this.#agent
    const doubts = this.#doubts
    this.#mustLook = false
    try {
      const newest = view.newest
      const { cluster, revision } = await surroundings.store.identity()
      const known = memory.content.store
      const reached = known && BigInt(known.revision) > newest ? BigInt(known.revision) : newest
      if (known && known.cluster !== cluster)
        this.#stop(`it is another store: its id was ${known.cluster}, and is ${cluster}`, revision)
      else if (known?.wentBackTo !== undefined)
        this.#stop(wentBack(reached, known.wentBackTo), BigInt(known.wentBackTo))
      else if (revision < reached) {
        this.#stop(wentBack(reached, revision), revision)
        memory.change({ store: { cluster, revision: String(reached), wentBackTo: String(revision) } })
      } else if (!this.#stopped) memory.change({ store: { cluster, revision: String(revision) } })
      this.#settled = doubts
    } catch (error) {
      this.#mustLook = true
      throw error
    }
  }

  /** Throws `StoreError` where the store is not the one that it was. */
  async require(): Promise<void> {
    this.#mustLook = true
    await this.check()
    if (this.#stopped) throw new StoreError(this.#stopped.reason, "refused")
  }

  #stop(what: string, revision: bigint): void {
    if (this.#stopped) return
    const reason = `The store cannot be trusted: ${what}. No block is claimed or given back until "cni-agent ipam accept-store"`
    this.#stopped = { reason, revision }
    say(this.#agent, "error", reason)
  }

  /** The store is the right one. */
  accept(): void {
    this.#agent.memory.replace(inAcceptedStore(this.#agent.memory.content))
    this.#agent.view.forgetNewest()
    this.#stopped = undefined
    this.#mustLook = true
  }
}

function wentBack(from: bigint, to: bigint | string): string {
  return `it went back from revision ${from} to ${to}, as from a backup`
}

/** What is remembered once an operator has accepted a store. Whose a block is, its records say, also of blocks that were lost before it went back. */
export function inAcceptedStore({ store: _, epochs, ...rest }: Memory): Memory {
  return { ...rest, epochs: Object.fromEntries(Object.entries(epochs).filter(([, epoch]) => epoch !== LOST)) }
}
