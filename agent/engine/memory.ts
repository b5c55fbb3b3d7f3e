import type { Memory, Surroundings } from "./surroundings.ts"

/** The agent's memory: read once, and written when it changes. */
export class MemoryFile {
  readonly #surroundings: Surroundings
  #memory: Memory
  #isWritten: boolean

  /** Times of another boot are forgotten: a quarantine is waited for anew. */
  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings
    const { bootId } = surroundings.clock
    const found = surroundings.node.readMemory()
    this.#isWritten = found?.bootId === bootId
    const fresh: Memory = { bootId, quarantined: {}, epochs: {} }
    this.#memory = this.#isWritten && found ? found : { ...fresh, ...found, bootId, quarantined: {} }
  }

  get content(): Memory {
    return this.#memory
  }

  /** On the disk when it returns. Throws `SyscallError`; then memory and disk are as before, or the disk is ahead. */
  change(changes: Partial<Omit<Memory, "bootId">>): void {
    const next = { ...this.#memory, ...changes }
    if (this.#isWritten && JSON.stringify(next) === JSON.stringify(this.#memory)) return
    this.#surroundings.node.writeMemory(next)
    this.#isWritten = true
    this.#memory = next
  }

  /** Notes the epochs of blocks, which a pool file may name from then on. */
  setEpochs(epochs: Readonly<Record<string, number>>): void {
    this.change({ epochs: { ...this.#memory.epochs, ...epochs } })
  }
}
