import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"

/** The objects in which a key must not come twice: there is no telling which of the values is meant. */
const paths = [".sysctl", ".args.cni.sysctl"]

/** What can be in the text of a JSON document besides numbers, words and white space. */
const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g

/**
 * Refuses a configuration that has one of these sysctls twice, spelled alike. It looks at the text, since the parsed value
 * has only the last one. The text has been parsed before, so it is JSON. Throws code 7.
 */
export function refuseDuplicateSysctls(stdin: Uint8Array, sysctls: readonly { key: string }[]): void {
  const text = decodeUtf8(stdin)
  const duplicate = mayRepeat(text, sysctls) ? duplicateKey(text) : undefined
  if (duplicate === undefined) return
  const key = JSON.stringify(duplicate)
  throw new CniError(Code.InvalidNetworkConfig, `Cannot use "sysctl": duplicated sysctl keys are not allowed: ${key}`)
}

/** Whether a key may come twice: a look that is cheap, and nearly always enough. */
function mayRepeat(text: string, sysctls: readonly { key: string }[]): boolean {
  if (text.includes("\\")) return true // a key may be spelled in several ways
  for (const { key } of sysctls) if (text.indexOf(`"${key}"`) !== text.lastIndexOf(`"${key}"`)) return true
  return false
}

/** The first key that comes twice in one of `paths`; undefined when there is none. */
export function duplicateKey(json: string): string | undefined {
  const seen = new Set<string>()
  const open: string[] = [] // the paths of the objects and lists around
  let path = "" // of the value to come
  let isKey = false
  for (const [text] of json.matchAll(token)) {
    const parent = open.at(-1) ?? ""
    if (text === "{" || text === "[") {
      open.push(text === "[" ? `${path}[]` : path)
      isKey = text === "{"
    } else if (text === "}" || text === "]") {
      open.pop()
      isKey = false
    } else if (text === ",") {
      isKey = !parent.endsWith("[]")
    } else if (text !== ":" && isKey) {
      const key = String(JSON.parse(text))
      isKey = false
      path = `${parent}.${key.toLowerCase()}`
      if (!paths.includes(parent)) continue
      if (seen.has(`${parent} ${key}`)) return key
      seen.add(`${parent} ${key}`)
    }
  }
  return undefined
}
