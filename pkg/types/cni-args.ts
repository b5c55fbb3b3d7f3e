import { CniError, Code } from "./error.ts"

/** For each key that a plugin knows, how its value is read; `undefined` for a value that makes no sense. */
export type CniArgReaders = Readonly<Record<string, (value: string) => unknown>>

/** What `readCniArgs` returns: one property for each known key that was given. */
export type CniArgs<R extends CniArgReaders> = { -readonly [K in keyof R]?: Exclude<ReturnType<R[K]>, undefined> }

/**
 * Splits `CNI_ARGS`, "KEY=VALUE;KEY=VALUE", into its pairs; a later duplicate wins, a value may be empty. Each pair has
 * exactly one "=", and there is no ";" at the end: anything else throws code 4.
 */
export function parseCniArgs(text: string): Map<string, string> {
  const pairs = new Map<string, string>()
  for (const pair of text === "" ? [] : text.split(";")) {
    const [key, value, ...more] = pair.split("=")
    if (key === undefined || value === undefined || more.length > 0) {
      throw invalid(`invalid pair ${JSON.stringify(pair)}: expected KEY=VALUE with ";" between pairs`)
    }
    pairs.set(key, value)
  }
  return pairs
}

/**
 * Reads the keys of `CNI_ARGS` that a plugin knows, case-sensitively. Another key is an error unless the text also has
 * `IgnoreUnknown=1` (or `true`). Throws code 4 naming the pair.
 *
 * @example readCniArgs("IgnoreUnknown=1;MAC=0a:00:00:00:00:01", { MAC: parseMac }) // { MAC: Uint8Array }
 */
export function readCniArgs<R extends CniArgReaders>(text: string, readers: R): CniArgs<R> {
  const known: CniArgReaders = { ...readers, IgnoreUnknown: parseCniBoolean }
  const values: Record<string, unknown> = {}
  const unknown: string[] = []
  for (const [key, value] of parseCniArgs(text)) {
    const read = Object.hasOwn(known, key) ? known[key] : undefined
    const parsed = read?.(value)
    if (!read) unknown.push(JSON.stringify(`${key}=${value}`))
    else if (parsed === undefined) throw invalid(`cannot read the value of ${JSON.stringify(`${key}=${value}`)}`)
    else values[key] = parsed
  }
  if (unknown.length > 0 && values.IgnoreUnknown !== true) throw invalid(`unknown args [${unknown.join(" ")}]`)
  if (!Object.hasOwn(readers, "IgnoreUnknown")) delete values.IgnoreUnknown
  return values as CniArgs<R>
}

/** `1` and `true` in any case, `0` and `false` in any case; `undefined` for anything else. */
export function parseCniBoolean(value: string): boolean | undefined {
  const lower = value.toLowerCase()
  if (lower === "1" || lower === "true") return true
  return lower === "0" || lower === "false" ? false : undefined
}

function invalid(reason: string): CniError {
  return new CniError(Code.InvalidEnvironment, `CNI_ARGS: ${reason}`)
}
