/** Helpers for tests of refusals. For tests only: the door does not export it. */
import { CniError } from "./error.ts"
import type { RawNumber } from "./json.ts"

/** Returns the `CniError` of `action`. Throws if there is none, and passes other exceptions on. */
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
  // ECMAScript 2026 "JSON.parse source text access", which TypeScript's library does not declare yet.
  interface JSON {
    rawJSON(text: string): RawNumber
  }
}
