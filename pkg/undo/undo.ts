import { type ErrnoName, isErrno, isShortage } from "../libc/mod.ts"
import { CniError, Code, isCniError, messageOf } from "../types/mod.ts"

interface Step {
  what: string
  revert: () => void
}

/**
 * The changes that an ADD has made to the host, each with its reverse. At the end of the scope they are undone in
 * reverse order, unless `keep()` was called, so that a failed ADD leaves nothing.
 */
export class Undo implements Disposable {
  readonly #log: (line: string) => void
  readonly #steps: Step[] = []

  constructor(log: (line: string) => void) {
    this.#log = log
  }

  /**
   * Adds the reverse of a change. `what` names the change in the log. For an atomic change, call it after the change.
   * For a change that may be partial, call it before; `revert` must then accept missing objects. An atomic change whose
   * answer may be lost is passed as `change`: its reverse is added when it returns, or when it throws an error that
   * says that the answer was lost. Returns the result of `change`.
   */
  defer(what: string, revert: () => void): void
  defer<T>(what: string, revert: () => void, change: () => T): T
  defer<T>(what: string, revert: () => void, change?: () => T): T | undefined {
    try {
      const value = change?.()
      this.#steps.push({ what, revert })
      return value
    } catch (error) {
      if (isLost(error)) this.#steps.push({ what, revert })
      throw error
    }
  }

  /** The names of the changes so far, in order. */
  get changes(): string[] {
    return this.#steps.map(({ what }) => what)
  }

  /** Keeps all changes, after a success. */
  keep(): void {
    this.#steps.length = 0
  }

  /**
   * Undoes all changes. Never throws, because that would hide the original error. Repeats a failed reverse
   * once after all others, because the cause may be temporary, and logs a second failure.
   */
  [Symbol.dispose](): void {
    const failed = takeBack(this.#steps.splice(0).reverse())
    for (const { what, error } of takeBack(failed)) {
      this.#log(`Cannot undo "${what}": ${messageOf(error)}`)
    }
  }
}

/** Undoes steps. Returns the steps that failed, with their errors. */
function takeBack(steps: readonly Step[]): (Step & { error: unknown })[] {
  return steps.flatMap((step) => {
    try {
      step.revert()
      return []
    } catch (error) {
      return [{ ...step, error }]
    }
  })
}

/** Reports whether an error, or one of its causes, says that the kernel's answer was lost. */
function isLost(error: unknown): boolean {
  return hasCause(error, (cause) => "isLost" in cause && cause.isLost === true)
}

/** Collects the errors of an operation that continues after failures, such as DEL and GC, for one throw at its end. */
export class Failures {
  readonly #errors: CniError[] = []
  readonly #log: ((line: string) => void) | undefined
  readonly #givenUp: readonly ErrnoName[]

  /**
   * Without `log`, every error is a failure. With `log`, errors with `ETIME` (not enough time), `EMSGSIZE` (an entry is
   * too long for the kernel to list) or one of `others` are only logged. They concern objects in a container, which are
   * deleted with the namespace.
   */
  constructor(log?: (line: string) => void, others: readonly ErrnoName[] = []) {
    this.#log = log
    this.#givenUp = ["ETIME", "EMSGSIZE", ...others]
  }

  /** Runs a step and stores its error. Returns the step's value, or `undefined` if it failed. */
  attempt<T>(what: string, step: () => T): T | undefined {
    try {
      return step()
    } catch (error) {
      const failure =
        error instanceof CniError ? error : new CniError(Code.Internal, `Cannot ${what}`, { cause: error })
      if (this.#log && hasCause(failure, (cause) => isErrno(cause, ...this.#givenUp)))
        this.#log(`${failure}; the rest is deleted with the container's namespace`)
      else this.#errors.push(failure)
      return undefined
    }
  }

  /** Whether a step has failed. */
  get any(): boolean {
    return this.#errors.length > 0
  }

  /** Whether one of the errors is temporary, such as a lack of memory. If so, the next call may succeed. */
  get mayPass(): boolean {
    return this.#errors.some((error) => hasCause(error, isShortage))
  }

  /**
   * Throws if a step has failed. A single error is thrown unchanged. Several become one error that names them all, with
   * code 999, or 11 if all of them are temporary.
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

/** Reports whether a condition is true for an error or one of its causes. */
function hasCause(error: unknown, isSo: (cause: Error) => boolean): boolean {
  for (let at = error; at instanceof Error; at = at.cause) if (isSo(at)) return true
  return false
}
