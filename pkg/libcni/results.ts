import { decodeResult, type JsonObject, type Result } from "../types/mod.ts"
import { inVersion } from "./request.ts"
import type { ResultDocument } from "./typed.ts"

/** Converts a result to a version. Throws code 1 if `version` cannot represent it, and code 6 if it is not a result. */
export function convertResult(result: ResultDocument | JsonObject, version: string): ResultDocument {
  return inVersion(result as JsonObject, version) as unknown as ResultDocument
}

/** Returns interfaces, addresses, routes and DNS of a result of any version. Throws code 6 if it is not a result. */
export function readResult(result: ResultDocument | JsonObject): Result {
  return decodeResult(result, "0.1.0")
}
