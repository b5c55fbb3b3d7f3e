import type { JsonObject, JsonValue } from "./json.ts"

/**
 * A copy in which every known key has its known spelling, however it was written: upstream's decoder ignores case, and
 * containerd sends `HostPort` for `hostPort`. An exact match comes first, then the last of the others; unknown keys
 * stay as written.
 */
export function foldKeys(object: JsonObject, known: readonly string[]): JsonObject {
  const spelling = new Map(known.map((key) => [fold(key), key]))
  const folded = new Map<string, JsonValue>()
  for (const [key, value] of Object.entries(object)) {
    const name = spelling.get(fold(key)) ?? key
    if (name === key || !Object.hasOwn(object, name)) folded.set(name, value)
  }
  return Object.fromEntries(folded) // unlike an assignment, this takes "__proto__" for a plain key
}

/** The value of one key, matched as in `foldKeys`; `undefined` when absent or `null`. */
export function member(object: JsonObject, key: string): JsonValue | undefined {
  if (Object.hasOwn(object, key)) return object[key] ?? undefined
  const wanted = fold(key)
  const name = Object.keys(object).findLast((candidate) => fold(candidate) === wanted)
  return name === undefined ? undefined : (object[name] ?? undefined)
}

/** Letters that differ in case only become equal; "ſ" is the one such letter that lower case alone does not reach. */
function fold(key: string): string {
  return key.toLowerCase().replaceAll("ſ", "s")
}
