import { isJsonObject, type JsonValue } from "../../pkg/types/mod.ts"

/**
 * Control characters (C0 and C1, newlines and tabs included), bidirectional formatting characters, line and paragraph
 * separators, and characters that XML does not allow.
 */
const HIDDEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: this expression finds them
  /[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]/g

/**
 * Escapes text from outside of this suite: names of interfaces, processes and pods, and content of files. Replaces each
 * character that could forge a line, a color, a table cell or a text direction with its escape, such as `\u001b`.
 */
export function foreign(text: string): string {
  if (text.search(HIDDEN) === -1) return text // true for nearly all texts, and faster than a replacement
  return text.replace(HIDDEN, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`)
}

/** Escapes all texts in a value, including keys. Returns the same object if it contains nothing to escape. */
export function foreignValue<T extends JsonValue>(value: T): T {
  if (typeof value === "string") return foreign(value) as T
  if (Array.isArray(value)) {
    const items = value.map(foreignValue)
    return items.every((item, at) => item === value[at]) ? value : (items as JsonValue as T)
  }
  if (!isJsonObject(value)) return value
  const entries = Object.entries(value).map(([key, each]) => [foreign(key), foreignValue(each as JsonValue)] as const)
  const isSame = entries.every(([key, each]) => Object.hasOwn(value, key) && value[key] === each)
  return isSame ? value : (Object.fromEntries(entries) as JsonValue as T)
}
