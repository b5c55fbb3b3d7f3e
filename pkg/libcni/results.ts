import { decodeResult, type JsonObject, type Result } from "../types/mod.ts"
import { inVersion } from "./request.ts"
import type { ResultDocument } from "./typed.ts"

/** A result in another version of the specification. Throws code 1 where that version cannot hold it, code 6 for what is no result. */
export function convertResult(result: ResultDocument | JsonObject, version: string): ResultDocument {
  return inVersion(result as JsonObject, version) as unknown as ResultDocument
}

/** What a result of any version says: interfaces, addresses, routes and name resolution. Throws code 6 for what is no result. */
export function readResult(result: ResultDocument | JsonObject): Result {
  return decodeResult(result, "0.1.0")
}
