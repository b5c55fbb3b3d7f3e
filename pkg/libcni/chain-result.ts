import { readResult } from "../invoke/mod.ts"
import { convertResult, type JsonObject, member, parseJsonObject } from "../types/mod.ts"
import { inject } from "./request.ts"

/**
 * What a plugin printed for ADD, as the next plugin and the cache get it: in the network's version, keys that we do not
 * know kept. A plugin may answer in another version; then the result is converted. Throws code 6 for what is no result.
 */
export function chainResult(stdout: string, networkVersion: string): JsonObject {
  readResult(stdout, networkVersion)
  return inVersion(parseJsonObject(stdout, "result"), networkVersion)
}

/** A result document in a version; the same document when it is in that version already. Throws as `convertResult`. */
export function inVersion(result: JsonObject, version: string): JsonObject {
  const wanted = version === "" ? "0.1.0" : version
  const written = member(result, "cniVersion")
  const label = typeof written === "string" && written !== "" ? written : wanted
  if (label !== wanted) return convertResult(result, label, wanted)
  return written === label ? result : { cniVersion: label, ...inject(result, [["cniVersion", label]]) }
}
