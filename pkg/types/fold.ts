import type { JsonObject, JsonValue } from "./json.ts"

/**
 * A copy in which every known key has its known spelling, however it was written: upstream's decoder ignores case, and
 * containerd sends `HostPort` for `hostPort`. An exact match comes first, then the last of the others; unknown keys
 * stay as written.
 */
export function foldKeys(object: JsonObject, known: readonly string[]): JsonObject {
  const folded = known.map(fold)
  const entries: [string, JsonValue][] = []
  for (const [key, value] of Object.entries(object)) {
    const name = known.includes(key) ? key : (known[folded.indexOf(fold(key))] ?? key)
    if (name === key || !Object.hasOwn(object, name)) entries.push([name, value])
  }
  return Object.fromEntries(entries) // unlike an assignment, this takes "__proto__" for a plain key
}

/** The value of one key, matched as in `foldKeys`; `undefined` when absent or `null`. */
export function member(object: JsonObject, key: string): JsonValue | undefined {
  if (Object.hasOwn(object, key)) return object[key] ?? undefined
  const wanted = fold(key)
  let found: JsonValue | undefined
  for (const name of Object.keys(object)) {
    if (name.length === key.length && fold(name) === wanted) found = object[name]
  }
  return found ?? undefined
}

/** Makes letters equal that differ in case only. "ſ" is the one of them that lower case does not turn into ASCII. */
function fold(key: string): string {
  return key.toLowerCase().replaceAll("ſ", "s")
}
