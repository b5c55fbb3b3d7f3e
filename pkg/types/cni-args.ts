import { CniError, Code } from "./error.ts"

/** A reader for each supported key. It returns `undefined` for an invalid value. */
export type CniArgReaders = Readonly<Record<string, (value: string) => unknown>>

/** The result of `readCniArgs`: one property for each known key that was given. */
export type CniArgs<R extends CniArgReaders> = { -readonly [K in keyof R]?: Exclude<ReturnType<R[K]>, undefined> }

/**
 * Splits `CNI_ARGS`, "KEY=VALUE;KEY=VALUE", into its pairs. The last duplicate wins, and a value may be empty. Throws
 * code 4 unless each pair has exactly one "=" and the text does not end with ";".
 */
export function parseCniArgs(text: string): Map<string, string> {
  const pairs = new Map<string, string>()
  if (text === "") return pairs
  for (const pair of text.split(";")) {
    const sign = pair.indexOf("=")
    if (sign < 0 || pair.includes("=", sign + 1)) {
      throw invalid(`invalid pair ${JSON.stringify(pair)}: expected KEY=VALUE with ";" between pairs`)
    }
    pairs.set(pair.slice(0, sign), pair.slice(sign + 1))
  }
  return pairs
}

/**
 * Reads the supported keys of `CNI_ARGS`, whose letter case matters. Other keys are errors unless the text also has
 * `IgnoreUnknown=1` (or `true`). Throws code 4 with the name of the pair.
 *
 * @example readCniArgs("IgnoreUnknown=1;MAC=0a:00:00:00:00:01", { MAC: parseMac }) // { MAC: Uint8Array }
 */
export function readCniArgs<R extends CniArgReaders>(text: string, readers: R): CniArgs<R> {
  const values: Record<string, unknown> = {}
  if (text === "") return values as CniArgs<R>
  const unknown: string[] = []
  let ignoresUnknown = false
  for (const [key, value] of parseCniArgs(text)) {
    const isKnown = Object.hasOwn(readers, key)
    const read = key === "IgnoreUnknown" ? parseCniBoolean : isKnown ? readers[key] : undefined
    const parsed = read?.(value)
    if (!read) unknown.push(`${key}=${value}`)
    else if (parsed === undefined) throw invalid(`cannot read the value of ${JSON.stringify(`${key}=${value}`)}`)
    if (key === "IgnoreUnknown") ignoresUnknown = parsed === true
    if (isKnown) values[key] = parsed
  }
  if (unknown.length === 0 || ignoresUnknown) return values as CniArgs<R>
  throw invalid(`unknown args [${unknown.map((pair) => JSON.stringify(pair)).join(" ")}]`)
}

/** Returns the boolean for `1` or `true`, `0` or `false`, in any letter case; `undefined` for anything else. */
export function parseCniBoolean(value: string): boolean | undefined {
  const lower = value.toLowerCase()
  if (lower === "1" || lower === "true") return true
  return lower === "0" || lower === "false" ? false : undefined
}

function invalid(reason: string): CniError {
  return new CniError(Code.InvalidEnvironment, `CNI_ARGS: ${reason}`)
}
