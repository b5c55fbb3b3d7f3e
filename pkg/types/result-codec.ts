import { member } from "./decode.ts"
import { CniError, Code } from "./error.ts"
import { describe, isJsonObject, type JsonObject } from "./json.ts"
import type { Result } from "./result.ts"
import {
  decode020,
  decode040,
  decode100,
  down040,
  down100,
  encode020,
  encode040,
  encode100,
  up020,
  up040,
} from "./result-layouts.ts"
import { layoutOf, supportedVersions } from "./version.ts"

/**
 * Decodes a result of ADD in the layout of its `cniVersion`, or of `configVersion` if it has none. `null` counts as
 * `{}`. Ignores unknown keys. Throws code 6 if it is not a result, and code 1 for an unknown version.
 */
export function decodeResult(json: unknown, configVersion: string): Result {
  const document = asObject(json)
  const written = member(document, "cniVersion")
  return decodeAs(document, typeof written === "string" && written !== "" ? written : configVersion)
}

/**
 * Decodes a result that must have the layout of `version`, such as the `prevResult` of a configuration of that version.
 * Throws code 6 if it is not a result or its `cniVersion` has another layout. Throws code 1 if `version` is unknown.
 */
export function decodeResultOf(version: string, json: unknown): Result {
  return decodeAs(checkedDocument(version, json), version)
}

/**
 * Encodes a result in the layout of a version ("" is 0.1.0), with its `cniVersion` and the keys in upstream's order.
 * Throws code 1 if the version is unknown, or if it is below 0.3.0 and the result has no address.
 */
export function encodeResult(result: Result, version: string): JsonObject {
  const label = version === "" ? "0.1.0" : version
  switch (layoutOf(label)) {
    case "1.1.0":
      return encode100(result, label)
    case "0.4.0":
      return encode040(down100(result), label)
    case "0.2.0":
      return encode020(down040(down100(result)), label)
    default:
      throw unsupported(version)
  }
}

/**
 * Converts a result document to another version. Within a layout only `cniVersion` changes. The address family that a
 * 0.3.0 to 0.4.0 result states is not verified. Throws like `decodeResultOf` and `encodeResult`.
 */
export function convertResult(json: unknown, fromVersion: string, toVersion: string): JsonObject {
  const from = layoutOf(fromVersion)
  const to = layoutOf(toVersion)
  const label = toVersion === "" ? "0.1.0" : toVersion
  if (!from || !to) {
    throw new CniError(
      Code.IncompatibleVersion,
      `Cannot convert the result: no converter for CNI result version ${fromVersion} to ${toVersion}`,
    )
  }
  const document = checkedDocument(fromVersion, json)
  if (from === "0.2.0" && to === "0.2.0") return encode020(decode020(document), label)
  if (from === "0.4.0" && to === "0.4.0") return encode040(decode040(document), label)
  if (from === "0.4.0" && to === "0.2.0") return encode020(down040(decode040(document)), label)
  return encodeResult(decodeAs(document, fromVersion), label)
}

function decodeAs(document: JsonObject, version: string): Result {
  switch (layoutOf(version)) {
    case "1.1.0":
      return decode100(document)
    case "0.4.0":
      return up040(decode040(document))
    case "0.2.0":
      return up040(up020(decode020(document)))
    default:
      throw unsupported(version)
  }
}

function checkedDocument(version: string, json: unknown): JsonObject {
  const document = asObject(json)
  const layout = layoutOf(version)
  if (!layout) throw unsupported(version)
  const written = member(document, "cniVersion") ?? ""
  if (written === "" || (typeof written === "string" && layoutOf(written) === layout)) return document
  const known = supportedVersions.filter((each) => layoutOf(each) === layout).join(" ")
  throw new CniError(
    Code.Decoding,
    `Cannot decode the result: result type supports [${known}] but unmarshalled CNIVersion is ${describe(written)}`,
  )
}

function asObject(json: unknown): JsonObject {
  if (json === null) return {}
  if (isJsonObject(json)) return json
  throw new CniError(Code.Decoding, `Cannot decode the result: expected a JSON object, found ${describe(json)}`)
}

function unsupported(version: string): CniError {
  return new CniError(
    Code.IncompatibleVersion,
    `Cannot use the result: unsupported CNI result version "${version}": expected one of ${supportedVersions.join(", ")}`,
  )
}
