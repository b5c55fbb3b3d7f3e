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
  #stopped: Stopped | undefined

  constructor(agent: Agent) {
    this.#agent = agent
  }

  get stopped(): Stopped | undefined {
    return this.#stopped
  }

  /** The next check asks the store. */
  look(): void {
    this.#mustLook = true
  }

  /** Asks the store who it is, where that may have changed. Throws `StoreError`. */
  async check(): Promise<void> {
    if (!this.#mustLook) return
    const { surroundings, memory, view } = this.#agent
    this.#mustLook = false
    try {
      const newest = view.newest
      const { cluster, revision } = await surroundings.store.identity()
      const known = memory.content.store
      const reached = known && BigInt(known.revision) > newest ? BigInt(known.revision) : newest
      if (known && known.cluster !== cluster)
        this.#stop(`it is another store: its id was ${known.cluster}, and is ${cluster}`, revision)
      else if (revision < reached) {
        this.#stop(`it went back from revision ${reached} to ${revision}, as from a backup`, revision)
        memory.change({ store: { cluster, revision: String(reached) } }) // for the agent that starts next
      } else if (!this.#stopped) memory.change({ store: { cluster, revision: String(revision) } })
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

/** What is remembered once an operator has accepted a store. Whose a block is, its records say, also of blocks that were lost before it went back. */
export function inAcceptedStore({ store: _, epochs, ...rest }: Memory): Memory {
  return { ...rest, epochs: Object.fromEntries(Object.entries(epochs).filter(([, epoch]) => epoch !== LOST)) }
}
