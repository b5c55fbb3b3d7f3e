import { type ErrnoName, isErrno, isShortage } from "../libc/mod.ts"
import { CniError, Code, isCniError, messageOf } from "../types/mod.ts"

interface Step {
  what: string
  revert: () => void
}

/**
 * The changes made to the host so far, each with its reverse. Leaving the scope undoes them in reverse order, unless
 * `keep()` was called: ADD is all or nothing.
 */
export class Undo implements Disposable {
  readonly #log: (line: string) => void
  readonly #steps: Step[] = []

  constructor(log: (line: string) => void) {
    this.#log = log
  }

  /**
   * Adds the reverse of a change; `what` names the change, for the log. The call follows a change that is atomic, and
   * precedes one that may be partial: `revert` then accepts missing objects. An atomic change whose answer may be lost
   * is the third argument: its reverse is added when it returns, and when it throws that the answer was lost. Returns
   * what the change returns.
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

  /** The changes so far, in order. */
  get changes(): string[] {
    return this.#steps.map(({ what }) => what)
  }

  /** Success: nothing is undone any more. */
  keep(): void {
    this.#steps.length = 0
  }

  /**
   * Undoes all changes. Never throws, because that would hide the original error. A failed reverse is repeated once
   * after all others, since the cause may be temporary, and is logged if it fails again.
   */
  [Symbol.dispose](): void {
    const failed = takeBack(this.#steps.splice(0).reverse())
    for (const { what, error } of takeBack(failed)) {
      this.#log(`Cannot undo "${what}": ${messageOf(error)}`)
    }
  }
}

/** Returns the steps that failed, with their errors. */
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

/** Whether an error, or a cause of it, says that the kernel's answer was lost. */
function isLost(error: unknown): boolean {
  return hasCause(error, (cause) => "isLost" in cause && cause.isLost === true)
}

/**
 * Collects the errors of an operation that continues after failures, such as DEL and GC, and throws them at the end.
 */
export class Failures {
  readonly #errors: CniError[] = []
  readonly #log: ((line: string) => void) | undefined
  readonly #givenUp: readonly ErrnoName[]

  /**
   * With `log`, logs work that was given up for lack of time (`ETIME`), or because an entry is too long for the kernel
   * to list (`EMSGSIZE`), and does not count it as a failure: it concerns objects in a container, which are deleted
   * with the namespace. Without `log` it counts as a failure. `others` are further errors of this kind.
   */
  constructor(log?: (line: string) => void, others: readonly ErrnoName[] = []) {
    this.#log = log
    this.#givenUp = ["ETIME", "EMSGSIZE", ...others]
  }

  /** Runs one step and keeps its error. Returns the step's value, or `undefined` when it failed. */
  attempt<T>(what: string, step: () => T): T | undefined {
    try {
      return step()
    } catch (error) {
      const failure =
        error instanceof CniError ? error : new CniError(Code.Internal, `Cannot ${what}`, { cause: error })
      if (this.#log && hasCause(failure, (cause) => isErrno(cause, ...this.#givenUp)))
        this.#log(`${failure}; it is deleted with the container's namespace`)
      else this.#errors.push(failure)
      return undefined
    }
  }

  /** Whether a step has failed so far. */
  get any(): boolean {
    return this.#errors.length > 0
  }

  /** Whether one of the errors is temporary, such as a lack of memory or a busy resource: the next call may succeed. */
  get mayPass(): boolean {
    return this.#errors.some((error) => hasCause(error, isShortage))
  }

  /**
   * Throws when a step has failed: the error itself if it is the only one, else one that names them all, with code 999,
   * or 11 when each of them will pass.
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

/** Whether a condition holds for an error or one of its causes. */
function hasCause(error: unknown, isSo: (cause: Error) => boolean): boolean {
  for (let at = error; at instanceof Error; at = at.cause) if (isSo(at)) return true
  return false
}
