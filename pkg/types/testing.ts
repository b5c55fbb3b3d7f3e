/** Helpers for tests of refusals. For tests only: the door does not export it. */
import { CniError } from "./error.ts"

/** The `CniError` that `action` throws. Throws when it throws none, and what else it throws. */
export function refusalOf(action: () => unknown): CniError {
  try {
    action()
  } catch (error) {
    if (error instanceof CniError) return error
    throw error
  }
  throw new Error("it was accepted")
}
