import { findStat, isRegularFile, replaceFile } from "../pkg/libc/mod.ts"
import { isJsonObject, type JsonValue } from "../pkg/types/mod.ts"

/** Keys whose values must not leave the node. */
const SECRET_KEY = /pass|secret|token|credential|auth|private|apikey|api_key|psk|certificate/i
/** The user and the password in a URL: `//user:password@`, and `//token@`. */
const USER_INFO = /\/\/(?:[^\s"'<>/@:]*:[^\s"'<>]*|[^\s"'<>/@:]+)@/g
/** The replacement of a secret. */
const REMOVED = "(removed)"

/** Returns the value with the values of secret keys replaced at any depth, and without users and passwords in URLs. */
export function redact(value: JsonValue): JsonValue {
  if (typeof value === "string") return redactText(value)
  if (Array.isArray(value)) return value.map(redact)
  if (!isJsonObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [redactText(key), redactMember(key, each as JsonValue)]),
  )
}

/** Returns the value of a key, or its replacement. */
export function redactMember(key: string, value: JsonValue): JsonValue {
  return SECRET_KEY.test(key) ? REMOVED : redact(value)
}

/** Returns the text without users and passwords in URLs. */
export function redactText(text: string): string {
  return text.includes("@") ? text.replace(USER_INFO, `//${REMOVED}@`) : text
}

/**
 * Writes a file that only its owner can read. Creates a new file and renames it to the name. Throws write errors. Also
 * throws for an existing symbolic link, which may belong to another user and lead anywhere, and for a directory or a
 * device.
 */
export function writePrivateFile(file: string, content: string | Uint8Array): void {
  const found = findStat(file, true)
  if (found && !isRegularFile(found)) throw new Error(`Cannot write "${file}": it exists and is not a regular file`)
  replaceFile(file, content, 0o600)
}
