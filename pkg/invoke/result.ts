import { CniError, Code, decodeResult, parseJsonObject, type Result } from "../types/mod.ts"

/**
 * Reads what a plugin printed for ADD: one JSON object, `null` for an empty one, in the layout of the version that it
 * names, else of the configuration's. Throws code 6 for anything else, nothing at all included.
 */
export function readResult(stdout: string | Uint8Array, configVersion: string): Result {
  try {
    return decodeResult(parseJsonObject(stdout, "result"), configVersion)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new CniError(
      error instanceof CniError ? error.code : Code.Decoding,
      `failed to unmarshal raw result: ${reason}`,
    )
  }
}
