import { CniError, Code, isJsonObject, stringifyJson } from "../types/mod.ts"
import type { Attachment, AttachmentId, Network, Runtime } from "./network.ts"

/** Checks arguments of callers without a type checker. Refuses wrong values before anything is done. */

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null
const isText = (value: unknown) => typeof value === "string"
const isTexts = (value: unknown) => Array.isArray(value) && value.every(isText)
const isPair = (value: unknown) => Array.isArray(value) && value.length === 2 && value.every(isText)
const isOptional = (is: (value: unknown) => boolean) => (value: unknown) => value === undefined || is(value)
const isTime = (value: unknown) => typeof value === "number" && Number.isFinite(value) && value >= 0
const isFunction = (value: unknown) => typeof value === "function"
const isSignal = (value: unknown) => isObject(value) && typeof value.aborted === "boolean"

/** The test for each property of an object, and the description of a valid value. */
type Rules<T> = { readonly [key in keyof T]-?: readonly [is: (value: unknown) => boolean, wanted: string] }

const ofRuntime: Rules<Runtime> = {
  path: [isTexts, "a list of directories"],
  cacheDir: [(value) => isText(value) && value !== "", "the path of a directory"],
  env: [isObject, "an object of texts"],
  trace: [isOptional(isObject), "an object"],
  stderr: [isFunction, "a function"],
  timeoutMs: [isOptional(isTime), "a number of milliseconds"],
  lockTimeoutMs: [isOptional(isTime), "a number of milliseconds"],
  signal: [isOptional(isSignal), "an AbortSignal"],
  exec: [isOptional(isObject), "an object with findPlugin and run"],
}

const ofNetwork: Rules<Pick<Network, "name" | "cniVersion" | "plugins">> = {
  name: [isText, "a text"],
  cniVersion: [isText, "a text"],
  plugins: [
    (value) => Array.isArray(value) && value.every((one) => isObject(one) && isText(one.type) && isJsonObject(one.raw)),
    "a list of plugins with type and raw",
  ],
}

const ofAttachment: Rules<Attachment> = {
  containerId: [isText, "a text"],
  ifName: [isText, "a text"],
  netns: [isText, 'a path, or "" for DEL'],
  args: [(value) => Array.isArray(value) && value.every(isPair), "a list of pairs of texts"],
  capabilityArgs: [(value) => isJsonObject(value) && isJson(value), "an object of JSON values"],
}

const ofAttachmentId: Rules<AttachmentId> = {
  containerId: [(value) => isText(value) && value !== "", "a non-empty text"],
  ifName: [(value) => isText(value) && value !== "", "a non-empty text"],
}

/** Throws code 4 unless the value is a `Runtime`. */
export function requireRuntime(runtime: Runtime): void {
  requireValid("runtime", runtime, ofRuntime, Code.InvalidEnvironment)
}

/** Throws code 7 unless the value is a `Network`, as returned by `loadNetwork` and `parseNetworkList`. */
export function requireNetwork(network: Network): void {
  requireValid("network", network, ofNetwork, Code.InvalidNetworkConfig)
}

/** Throws code 7 unless the value is a `Network` that can be cached. */
export function requireWholeNetwork(network: Network): void {
  requireNetwork(network)
  const bytes: Rules<Pick<Network, "bytes">> = {
    bytes: [(value) => value instanceof Uint8Array, "the bytes of its file"],
  }
  requireValid("network", network, bytes, Code.InvalidNetworkConfig)
}

/** Throws code 4 unless the value is an `Attachment`. */
export function requireAttachment(attachment: Attachment): void {
  requireValid("attachment", attachment, ofAttachment, Code.InvalidEnvironment)
}

/** Throws code 4 unless all are attachments: GC would delete an attachment whose element it skipped. */
export function requireValidSet(valid: readonly AttachmentId[]): void {
  if (!Array.isArray(valid)) throw new CniError(Code.InvalidEnvironment, "Cannot collect garbage: valid set unknown")
  for (const [at, one] of valid.entries()) requireValid(`valid[${at}]`, one, ofAttachmentId, Code.InvalidEnvironment)
}

/** Throws code 4 unless the value is a string. */
export function requireText(what: string, value: unknown): void {
  if (isText(value)) return
  throw new CniError(Code.InvalidEnvironment, `Cannot use "${what}": expected a text, got ${kindOf(value)}`)
}

function requireValid<T>(what: string, value: unknown, rules: Rules<T>, code: number): void {
  if (!isObject(value)) throw new CniError(code, `Cannot use "${what}": expected an object, got ${kindOf(value)}`)
  for (const [key, [is, wanted]] of Object.entries<Rules<T>[keyof T]>(rules)) {
    if (is(value[key])) continue
    throw new CniError(code, `Cannot use "${what}.${key}": expected ${wanted}, got ${kindOf(value[key])}`)
  }
}

/** Reports whether a value can be written as JSON: it has no cycle and no bigint. */
function isJson(value: unknown): boolean {
  try {
    stringifyJson(value)
    return true
  } catch {
    return false
  }
}

export function kindOf(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "a list" : typeof value
}
