/** Helpers for tests of refusals. `mod.ts` does not export them. */
import { CniError } from "./error.ts"
import type { RawNumber } from "./json.ts"

/** Returns the `CniError` that `action` throws. Throws if it throws none, and rethrows other exceptions. */
export function refusalOf(action: () => unknown): CniError {
  try {
    action()
  } catch (error) {
    if (error instanceof CniError) return error
    throw error
  }
  throw new Error("it was accepted")
}

declare global {
  // "JSON.parse source text access" of ECMAScript 2026, which TypeScript's library does not declare yet.
  interface JSON {
    rawJSON(text: string): RawNumber
  }
}
