import type { JsonObject, JsonValue } from "./json.ts"

/**
 * A copy in which every known key has its known spelling, however it was written: upstream's decoder ignores case, and
 * containerd sends `HostPort` for `hostPort`. An exact match comes first, then the last of the others; unknown keys
 * stay as written.
 */
export function foldKeys(object: JsonObject, known: readonly string[]): JsonObject {
  const folded = { ...object } // unlike an assignment, this takes "__proto__" for a plain key
  for (const key of Object.keys(object)) {
    const name = known.includes(key) ? key : spellingOf(key, known)
    if (name === key) continue
    if (!Object.hasOwn(object, name)) folded[name] = object[key] ?? null
    delete folded[key]
  }
  return folded
}

function spellingOf(key: string, known: readonly string[]): string {
  for (const name of known) if (isSameKey(name, key)) return name
  return key
}

/** The value of one key, matched as in `foldKeys`; `undefined` when absent or `null`. */
export function member(object: JsonObject, key: string): JsonValue | undefined {
  if (Object.hasOwn(object, key)) return object[key] ?? undefined
  let found: JsonValue | undefined
  for (const name of Object.keys(object)) if (isSameKey(name, key)) found = object[name]
  return found ?? undefined
}

/** Whether an object has a key, matched as in `foldKeys`, its value `null` included. */
export function hasMember(object: JsonObject, key: string): boolean {
  for (const name of Object.keys(object)) if (isSameKey(name, key)) return true
  return false
}

function isSameKey(a: string, b: string): boolean {
  return a.length === b.length && fold(a) === fold(b)
}

/** Makes letters equal that differ in case only. "ſ" is the one of them that lower case does not turn into ASCII. */
function fold(key: string): string {
  return key.toLowerCase().replaceAll("ſ", "s")
}
