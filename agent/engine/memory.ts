import type { Memory, Surroundings } from "./surroundings.ts"

/** In place of the epoch of a block that another node owns now, and of which containers of this one may still have addresses. */
export const LOST = 0

/** The agent's memory: read once, and written when it changes. */
export class MemoryFile {
  readonly #surroundings: Surroundings
  #memory: Memory
  /** What is on the disk; `undefined` where that is of another boot, or nothing. */
  #written: string | undefined

  /** Times of another boot are forgotten: a quarantine is waited for anew. */
  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings
    const { bootId } = surroundings.clock
    const found = surroundings.node.readMemory()
    const isOfThisBoot = found?.bootId === bootId
    const fresh: Memory = { bootId, quarantined: {}, epochs: {} }
    this.#memory = isOfThisBoot ? found : { ...fresh, ...found, bootId, quarantined: {} }
    this.#written = isOfThisBoot ? JSON.stringify(found) : undefined
  }

  get content(): Memory {
    return this.#memory
  }

  /** On the disk when it returns. Throws `SyscallError`; then memory and disk are as before, or the disk is ahead. */
  change(changes: Partial<Omit<Memory, "bootId">>): void {
    const next = { ...this.#memory, ...changes }
    const text = JSON.stringify(next)
    if (text === this.#written) return
    this.#written = undefined
    this.#surroundings.node.writeMemory(next)
    this.#written = text
    this.#memory = next
  }

  /** Has other content in place of all that there is. */
  replace(content: Omit<Memory, "bootId">): void {
    const next = { ...content, bootId: this.#memory.bootId }
    this.#surroundings.node.writeMemory(next)
    this.#written = JSON.stringify(next)
    this.#memory = next
  }

  /** Notes the epoch of a block that a pool file may name from then on, and how far the store had come by then. */
  setEpoch(key: string, epoch: number, revision: bigint): void {
    const { store, epochs } = this.#memory
    const isNewer = store !== undefined && BigInt(store.revision) < revision
    this.change({
      epochs: { ...epochs, [key]: epoch },
      ...(isNewer && { store: { ...store, revision: String(revision) } }),
    })
  }

  /** Drops the epochs of blocks that are of no use any more. A lost one is remembered while it has a record: an ADD that has read the file before may still use it. */
  keepEpochs(isUsed: (key: string) => boolean, hasRecord: (key: string) => boolean): void {
    const isKept = (key: string, epoch: number) => isUsed(key) || (epoch === LOST && hasRecord(key))
    const kept = Object.entries(this.#memory.epochs).filter(([key, epoch]) => isKept(key, epoch))
    this.change({ epochs: Object.fromEntries(kept) })
  }
}
