import { didYouMean } from "../../pkg/config/mod.ts"
import { type Command, Found, outputFlags, print } from "../command.ts"
import { plain } from "../configuration/mod.ts"
import { findingNames } from "../doctor/mod.ts"
import { ruleNames } from "../lint/mod.ts"
import { type Explanation, explain, explainLog } from "./explain.ts"
import { type KnownFinding, knownFindings, takeFindings } from "./findings.ts"
import { type Section, sectionOfCode, sectionOfRule } from "./known.ts"

const names = [...new Set([...findingNames, ...ruleNames])].sort()

export const explainCommand: Command = {
  summary: "Explain an error: what it means, its cause, and what to do",
  words: ["ERROR|CODE|NAME|-…"],
  choices: { "ERROR|CODE|NAME|-…": names },
  flags: outputFlags,
  help: `ERROR is a message of a plugin or a runtime, a line of a log, or an error object in JSON. CODE is a code of the specification. NAME is a
finding of "cni doctor", or a rule of "cni lint". With - it reads stdin: a log (each kind of message is explained once),
an error object, or the output of "cni doctor", as text or JSON.
It explains messages of this suite, of Kubernetes, containerd, CRI-O, podman, the reference library and plugins, and of other
suites. For an unknown message of a plugin it names the plugin's suite and log. It works without a network.

Exit code 0: the error, or the plugin that wrote it, is known. 1: unknown.

Examples:
  cni explain 'plugin type="bridge" failed (add): failed to allocate for range 0: no IP addresses available in range set: 10.22.0.1-10.22.0.254'
  cni explain 7
  cni explain missing-ports
  cni doctor | cni explain -
  cni explain unknown-key
  journalctl -u kubelet --since -1h | cni explain -`,
  async run(args, terminal) {
    const asked = args.words.join(" ")
    const section = /^\d+$/.test(asked) ? sectionOfCode(Number(asked)) : sectionOfRule(asked)
    const findings = knownFindings()
    const pasted = takeFindings(asked === "-" ? await terminal.stdin() : asked, findings)
    if (section !== undefined && pasted.counts.size === 0) {
      print(args, terminal, { json: () => section, text: () => sectionText(section) })
      return
    }
    const explained = [...pasted.counts].flatMap(([name, count]) => {
      const known = findings.get(name)
      return known ? [{ known, count }] : []
    })
    const found = asked === "-" ? explainLog(pasted.rest) : explained.length > 0 ? [] : [explain(asked)]
    const known = found.filter(({ known }) => known.length > 0)
    const sections = section === undefined ? [] : [section]
    print(args, terminal, {
      json: () => [...explained.map(({ known, count }) => ({ ...known, count })), ...sections, ...known.map(asJson)],
      text: () => [...explained.map(findingText), ...sections.map(sectionText), ...known.map(asText)].join("\n"),
    })
    if (explained.length + known.length > 0) return
    const [first] = found
    const code = first?.error.code === undefined ? undefined : sectionOfCode(first.error.code)
    terminal.stderr(`cni explain: ${nothing(asked, code)}\n`)
    throw new Found(1)
  },
}

/** Returns the message about an unknown error, with a similar name and the section about the error's code, if any. */
function nothing(asked: string, code: Section | undefined): string {
  const number = code?.headline.split(":")[0]
  const hint =
    code === undefined ? "" : `. Code ${code.headline}: "cni explain ${number}" lists the messages of this code`
  const [, word] = /^(?:(?:ERROR|WARNING)\s+)?([\w-]+)$/.exec(asked) ?? []
  const near = word === undefined ? undefined : didYouMean(word, names)
  const meant = near === undefined ? "" : `; did you mean "${near}"?`
  return `Cannot explain this: no known message matches${meant}${hint}`
}

/** Formats rows of a head and lines. Skips rows without lines. */
function rowsText(rows: readonly (readonly [head: string, lines: readonly string[]])[]): string {
  const lines = rows.flatMap(([head, cells]) =>
    cells.map((cell, index) => `${(index === 0 ? head : "").padEnd(9)}${cell}\n`),
  )
  return lines.join("")
}

function findingText({ known, count }: { known: KnownFinding; count: number }): string {
  const { finding, what, why, causes, remedy, page } = known
  return rowsText([
    ["FINDING", [count > 1 ? `${finding}  (${count} times)` : finding]],
    ["WHAT", [what]],
    ["WHY", [why]],
    ["OFTEN", [causes]],
    ["DO", [remedy]],
    ["LOOK", ["cni doctor"]],
    ["PAGE", [page]],
  ])
}

function asText({ error, known, count }: Explanation): string {
  const [best, other] = known
  return rowsText([
    ["MESSAGE", [count > 1 ? `${error.message}  (${count} times)` : error.message]],
    ["PLUGIN", error.plugin === undefined ? [] : [`${error.plugin}, ${error.verb ?? "?"}`]],
    ["CODE", [error.code ?? best?.code].flatMap((code) => (code === undefined ? [] : [String(code)]))],
    ["WHAT", [best?.what ?? ""]],
    ["DO", best?.remedy === undefined ? [] : [best.remedy]],
    ["ALSO", other === undefined ? [] : [[other.what, other.remedy].filter(Boolean).join(": ")]],
    ["LOOK", best?.looks ?? []],
    ["PAGE", [best?.page ?? ""]],
  ])
}

function asJson({ error, known, count }: Explanation) {
  return {
    message: error.message,
    plugin: error.plugin,
    verb: error.verb,
    code: error.code,
    count,
    explanations: known.map(({ pattern, what, remedy, looks, page }) => ({ pattern, what, remedy, looks, page })),
  }
}

/** Formats a section of a page without Markdown markup. */
function sectionText({ headline, text, page }: Section): string {
  const lines = text.split("\n").flatMap((line) => {
    if (/^\| ?(---|message)/.test(line)) return []
    const cells = /^\|(.*)\|$/.exec(line)?.[1]?.split(/(?<!\\)\|/)
    return cells === undefined
      ? [plain(line)]
      : [`  ${plain(cells[0] ?? "").trim()}`, `      ${plain(cells.slice(1).join(" ")).trim()}`]
  })
  return `${headline}\n\n${lines.join("\n")}\n\n${page}\n`
}
