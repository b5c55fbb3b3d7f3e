import { CniError, Code, isCniError } from "../types/mod.ts"

/**
 * The errors of an operation that goes through all its steps whatever happens, as DEL and GC do, and reports once, at
 * the end.
 */
export class Failures {
  readonly #errors: CniError[] = []

  /** Runs one step and keeps its error. Answers the step's value, or `undefined` when it failed. */
  attempt<T>(what: string, step: () => T): T | undefined {
    try {
      return step()
    } catch (error) {
      this.#errors.push(
        error instanceof CniError ? error : new CniError(Code.Internal, `Cannot ${what}`, { cause: error }),
      )
      return undefined
    }
  }

  /** Whether a step has failed so far. */
  get any(): boolean {
    return this.#errors.length > 0
  }

  /**
   * Throws when a step has failed: the error itself if it is the only one, else one that names them all, with code 999, or
   * 11 when each of them will pass.
   */
  throwIfAny(): void {
    const [first, ...others] = this.#errors
    if (first === undefined) return
    if (others.length === 0) throw first
    throw new CniError(
      this.#errors.every((error) => isCniError(error, Code.TryAgainLater)) ? Code.TryAgainLater : Code.Internal,
      `${this.#errors.length} steps failed: ${this.#errors.map((error) => error.message).join("; ")}`,
      { details: this.#errors.flatMap((error) => error.details ?? []).join("; ") },
    )
  }
}
