import findingsPage from "../../docs/findings.md" with { type: "text" }
import { isJsonObject, member } from "../../pkg/types/mod.ts"
import { cellsOf, plain } from "../configuration/mod.ts"
import { sectionsOf } from "./known.ts"

export interface KnownFinding {
  /** The finding's name, as doctor prints it: "missing-ports". */
  readonly finding: string
  readonly what: string
  readonly why: string
  readonly causes: string
  readonly remedy: string
  /** The link to the section: "docs/findings.md#the-packet-filter". */
  readonly page: string
}

/** Returns the rows of docs/findings.md by finding names. */
export function knownFindings(): Map<string, KnownFinding> {
  const sections = sectionsOf("docs/findings.md", findingsPage)
  const rows = sections.flatMap(({ text, page }) =>
    text.split("\n").flatMap((line): KnownFinding[] => {
      if (!line.startsWith("| `")) return []
      const [finding = "", what = "", causes = "", why = "", remedy = ""] = cellsOf(line).map(plain)
      return [{ finding, what, why, causes, remedy, page }]
    }),
  )
  return new Map(rows.map((row) => [row.finding, row]))
}

/** The findings in a text with output of `cni doctor`, their counts, and the remaining text. */
export interface Pasted {
  readonly counts: ReadonlyMap<string, number>
  readonly rest: string
}

/** Separates findings from a text: names, doctor's report, or its JSON. Unknown names stay in the rest of the text. */
export function takeFindings(text: string, known: ReadonlyMap<string, KnownFinding>): Pasted {
  const counts = new Map<string, number>()
  const take = (name: string | undefined) => {
    if (name === undefined || !known.has(name)) return false
    counts.set(name, (counts.get(name) ?? 0) + 1)
    return true
  }
  const listed = namesInJson(text)
  if (listed !== undefined) return { rest: listed.filter((name) => !take(name)).join("\n"), counts }
  const rest: string[] = []
  let isParagraph = false
  for (const line of text.split("\n")) {
    if (isParagraph && /^(\s|$)/.test(line)) continue
    isParagraph = take(/^\s*(?:(?:ERROR|WARNING)\s+)?([a-z0-9-]+)\s*$/.exec(line)?.[1])
    if (!isParagraph) rest.push(line)
  }
  return { counts, rest: rest.join("\n") }
}

/** Returns the names in doctor's JSON, `{"findings": [{"rule": …}]}`, its list, or one finding, else undefined. */
function namesInJson(text: string): string[] | undefined {
  try {
    const value: unknown = JSON.parse(text)
    const list = isJsonObject(value) ? (member(value, "findings") ?? [value]) : value
    const names = (Array.isArray(list) ? list : []).map((each) => isJsonObject(each) && member(each, "rule"))
    const texts = names.filter((name) => typeof name === "string")
    return texts.length > 0 ? texts : undefined
  } catch {
    return undefined
  }
}
