import { findStat, isRegularFile, replaceFile } from "../pkg/libc/mod.ts"
import { isJsonObject, type JsonValue } from "../pkg/types/mod.ts"

/** Names of keys whose values must not leave the node. */
const SECRET_KEY = /pass|secret|token|credential|auth|private|apikey|api_key|psk|certificate/i
/** The user and password in a URL: `//user:password@` or `//token@`. */
const USER_INFO = /\/\/(?:[^\s"'<>/@:]*:[^\s"'<>]*|[^\s"'<>/@:]+)@/g
const REMOVED = "(removed)"

/** Returns the value without secrets: of secret keys at any depth, and users and passwords in URLs. */
export function redact(value: JsonValue): JsonValue {
  if (typeof value === "string") return redactText(value)
  if (Array.isArray(value)) return value.map(redact)
  if (!isJsonObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [redactText(key), redactMember(key, each as JsonValue)]),
  )
}

export function redactMember(key: string, value: JsonValue): JsonValue {
  return SECRET_KEY.test(key) ? REMOVED : redact(value)
}

/** Returns the text without users and passwords in URLs. */
export function redactText(text: string): string {
  return text.includes("@") ? text.replace(USER_INFO, `//${REMOVED}@`) : text
}

/**
 * Writes a file that only its owner can read: first a temporary file, then renamed. Throws write errors. Also throws if
 * the path is a directory, a device, or a symbolic link, which another user may have created.
 */
export function writePrivateFile(file: string, content: string | Uint8Array): void {
  const found = findStat(file, true)
  if (found && !isRegularFile(found)) throw new Error(`Cannot write "${file}": it exists and is not a regular file`)
  replaceFile(file, content, 0o600)
}
