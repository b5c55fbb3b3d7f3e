import { CniError, Code, isCniError } from "../types/mod.ts"

/** Checks for STATUS what ADD checks by the same code: its refusal becomes code 50. */
export function requireForAdd(check: () => void): void {
  try {
    check()
  } catch (error) {
    throw isCniError(error) ? unavailable(error) : error
  }
}

/**
 * The same for what every container gets one of: as long as one of them will do, ADD can succeed. The first refusal is
 * thrown.
 */
export function requireOneForAdd<T>(choices: readonly T[], check: (choice: T) => void): void {
  let refusal: CniError | undefined
  for (const choice of choices) {
    try {
      check(choice)
      return
    } catch (error) {
      if (!isCniError(error)) throw error
      refusal ??= error
    }
  }
  if (refusal) throw unavailable(refusal)
}

function unavailable({ message, details }: CniError): CniError {
  return new CniError(Code.PluginNotAvailable, message, { details: details ?? "" })
}
