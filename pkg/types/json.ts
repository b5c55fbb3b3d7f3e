import { decodeUtf8, exhaustion, json } from "../engine/mod.ts"
import { CniError, Code } from "./error.ts"
import { locateJsonFault } from "./json-fault.ts"

/** A JSON object with its keys as written. */
export interface JsonObject {
  [key: string]: JsonValue
}

/** Any JSON value. A number that JavaScript cannot hold exactly is a `RawNumber`. */
export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject | RawNumber

/** A number that `JSON.rawJSON` keeps as its text. `JSON.stringify` writes the same text. */
export interface RawNumber {
  readonly rawJSON: string
}

/** Reports whether a value is a number that is kept as its text. */
export function isRawNumber(value: unknown): value is RawNumber {
  return json.isRawJSON(value)
}

/** Reports whether a value is a JSON object: not an array, not null, and not a number that is kept as its text. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !json.isRawJSON(value)
}

/**
 * Parses one JSON value. Accepts only standard JSON: no comments, no byte order mark, nothing after the value. Integers
 * beyond a double's precision keep their text (`RawNumber`). Throws code 6, with line and column of a syntax error;
 * `what` names the document in it.
 */
export function parseJson(text: string, what = "JSON document"): JsonValue {
  const value = parse(text, what)
  const found = lookInto(value, 1)
  if (found === "too deep") throw tooDeep(what)
  return found === "lost digits" ? (json.parse(text, keepExactNumbers) as JsonValue) : value // keeping exact numbers is slow
}

/** Parses one JSON object, like `parseJson`. `null` becomes `{}`, as in upstream's decoder. */
export function parseJsonObject(input: string | Uint8Array, what = "network configuration"): JsonObject {
  const text = typeof input === "string" ? input : decodeUtf8(input)
  const value = parseJson(text, what)
  if (value === null) return {}
  if (!isJsonObject(value)) {
    throw new CniError(Code.Decoding, `Cannot decode the ${what}: expected a JSON object, found ${describe(value)}`)
  }
  return value
}

function parse(text: string, what: string): JsonValue {
  try {
    return JSON.parse(text)
  } catch (error) {
    const exhausted = exhaustion(error)
    if (exhausted === "memory") throw error
    if (exhausted === "stack") throw tooDeep(what)
    throw new CniError(Code.Decoding, `Cannot decode the ${what}: ${locateJsonFault(text) ?? String(error)}`)
  }
}

const tooDeep = (what: string) =>
  new CniError(Code.Decoding, `Cannot decode the ${what}: nested more than ${deepest} levels deep`)

/** The maximum of nested levels, more than in any configuration, and safe for the stack of `JSON.stringify`. */
const deepest = 1000

/** Searches a value for too many levels, and for numbers that have lost digits. */
function lookInto(value: JsonValue, level: number): "too deep" | "lost digits" | undefined {
  if (typeof value === "number") return isBeyondDigits(value) ? "lost digits" : undefined
  if (typeof value !== "object" || value === null) return undefined
  if (level > deepest) return "too deep"
  let found: ReturnType<typeof lookInto>
  const members = Array.isArray(value) ? value : Object.values(value)
  for (const member of members) {
    // Most values are scalars, and a call for each would double the time.
    if (typeof member === "string" || Number.isSafeInteger(member)) continue
    const inside = lookInto(member, level + 1)
    if (inside === "too deep") return inside
    found ??= inside
  }
  return found
}

/**
 * Reports whether a double may have lost an integer's digits. Lost digits of fractions do not matter: all decoders
 * round.
 */
function isBeyondDigits(value: number): boolean {
  return !Number.isSafeInteger(value) && !(Number.isFinite(value) && !Number.isInteger(value))
}

function keepExactNumbers(_key: string, value: unknown, context: { source?: string }): unknown {
  if (typeof value !== "number" || context.source === undefined || !isBeyondDigits(value)) return value
  return json.rawJSON(context.source)
}

/** Formats a value as upstream prints results and errors: indented by four spaces, without a newline at the end. */
export function printJson(value: unknown): string {
  return escapeAsUpstream(json.stringify(value, null, 4))
}

/** Formats a value as JSON on one line, as upstream writes requests and its cache. */
export function stringifyJson(value: unknown): string {
  return escapeAsUpstream(json.stringify(value))
}

/** Escapes <, >, & and line separators like Go's encoder. In JSON they occur only in strings. */
function escapeAsUpstream(text: string): string {
  return text.replace(/[<>&\u2028\u2029]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`)
}

/** Formats a JSON value for an error message: `"a string"`, `5`, `{"a":1}`. Cuts it at 60 characters. */
export function describe(value: unknown): string {
  if (value === undefined) return "nothing"
  const text = json.stringify(value) ?? typeof value
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}
