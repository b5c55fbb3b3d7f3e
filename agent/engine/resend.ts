import type { Block, Kind, Records } from "../records.ts"
import { type Stored, StoreError } from "../store.ts"
import type { Surroundings } from "./surroundings.ts"

const RETRY_MS = 200
const RETRY_MAX_MS = 10_000

/** What the store has answered to a change: the record as it is then. */
export interface Answer<K extends Kind> {
  readonly stored: Stored<K>
  /** When the request was sent, by CLOCK_BOOTTIME: the record was so at that time, or later. */
  readonly sentMs: number
}

/**
 * Whether a block's record is what a request has asked for. A claim whose first answer was lost may be in quarantine when the store is asked
 * again: it is no ground to use the block, and `adopt` takes it back.
 */
export function isMade(answer: Answer<"block"> | undefined, { nonce }: Block): answer is Answer<"block"> {
  return answer?.stored.value.nonce === nonce && answer.stored.value.state === "owned"
}

/**
 * Changes of records that do not end before their outcome is known. A request without an answer may have been carried out, and may still be:
 * it is sent again with the same content, and only a definite answer counts.
 */
export class Resend {
  readonly #surroundings: Surroundings
  readonly #signal: AbortSignal

  constructor(surroundings: Surroundings, signal: AbortSignal) {
    this.#surroundings = surroundings
    this.#signal = signal
  }

  /** Creates a record; where there is one, answers it: it is ours if it has our nonce. Throws `StoreError` where it is refused. */
  async create<K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Answer<K>> {
    const { store, clock } = this.#surroundings
    return await this.#untilKnown(async () => {
      const sentMs = clock.bootMs()
      const stored = (await store.create(kind, key, value)) ?? (await store.find(kind, key))
      return stored && { stored, sentMs }
    })
  }

  /**
   * Replaces a version of a record; answers the record as it is then, or `undefined` where it no longer exists. It is ours if it has the value's nonce.
   */
  async replace<K extends Kind>(stored: Stored<K>, value: Records[K]): Promise<Answer<K> | undefined> {
    const { store, clock } = this.#surroundings
    const answer = await this.#untilKnown(async () => {
      const sentMs = clock.bootMs()
      const found = (await store.replace(stored, value)) ?? (await store.find(stored.kind, stored.key)) ?? "gone"
      if (found === "gone") return found
      return found.version === stored.version ? undefined : { stored: found, sentMs }
    })
    return answer === "gone" ? undefined : answer
  }

  /** Removes a version of a record; false where the record is another version now. */
  async remove<K extends Kind>(stored: Stored<K>): Promise<boolean> {
    const { store } = this.#surroundings
    return await this.#untilKnown(async () => {
      if (await store.remove(stored)) return { done: true }
      const found = await store.find(stored.kind, stored.key)
      return found?.version === stored.version ? undefined : { done: found === undefined }
    }).then(({ done }) => done)
  }

  /** Asks until there is an answer. Returns `undefined` where the record changed between two questions. */
  async #untilKnown<T>(attempt: () => Promise<T | undefined>): Promise<T> {
    const { clock } = this.#surroundings
    for (let retryMs = RETRY_MS; ; retryMs = Math.min(2 * retryMs, RETRY_MAX_MS)) {
      let failure: unknown = new StoreError("the record changes all the time", "unknown")
      try {
        const answer = await attempt()
        if (answer !== undefined) return answer
      } catch (error) {
        if (!(error instanceof StoreError) || error.outcome === "refused") throw error
        failure = error
      }
      if (!this.#signal.aborted) await clock.sleep(retryMs, this.#signal)
      if (this.#signal.aborted) throw failure
    }
  }
}
