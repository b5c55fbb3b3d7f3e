import { type Command, Found, outputFlags, print } from "../command.ts"
import { plain } from "../configuration/key-docs.ts"
import { ruleNames } from "../lint/rules.ts"
import { type Explanation, explain, explainLog } from "./explain.ts"
import { type Section, sectionOfCode, sectionOfRule } from "./known.ts"

/** `cni explain` */
export const explainCommand: Command = {
  summary: "Say what an error means, why it came, and what to do",
  words: ["ERROR|CODE|RULE|-…"],
  choices: { "ERROR|CODE|RULE|-…": ruleNames },
  flags: outputFlags,
  help: `ERROR is a message of a plugin or a runtime, a line of a log, or an error object in JSON; CODE a code of the specification; RULE a rule
of "cni lint". With - errors are read from stdin: a log, of which each kind of message is explained once, or an error object.
Known are the messages of this suite, and those of Kubernetes, containerd, CRI-O, podman, upstream's library and plugins, and of some
other suites. Nothing is asked of a network.

Exit code 0: it is explained. 1: nothing is known of it.

Examples:
  cni explain 'plugin type="bridge" failed (add): failed to allocate for range 0: no IP addresses available in range set: 10.22.0.1-10.22.0.254'
  cni explain 7
  cni explain unknown-key
  journalctl -u kubelet --since -1h | cni explain -`,
  async run(args, terminal) {
    const asked = args.words.join(" ")
    const section = /^\d+$/.test(asked) ? sectionOfCode(Number(asked)) : sectionOfRule(asked)
    if (section !== undefined) {
      print(args, terminal, { json: () => section, text: () => sectionText(section) })
      return
    }
    const found = asked === "-" ? explainLog(await terminal.stdin()) : [explain(asked)]
    const known = found.filter(({ known }) => known.length > 0)
    print(args, terminal, { json: () => known.map(asJson), text: () => known.map(asText).join("\n") })
    if (known.length > 0) return
    terminal.stderr(`cni explain: ${nothing(found)}\n`)
    throw new Found(1)
  },
}

/** An error without an entry is explained by its code. */
function nothing([first]: readonly Explanation[]): string {
  const code = first?.said.code === undefined ? undefined : sectionOfCode(first.said.code)
  const hint = code === undefined ? "" : `. Code ${code.headline}: "cni explain ${first?.said.code}" lists what has it`
  return `Cannot explain this: no message that is known is like it${hint}`
}

function asText({ said, known, count }: Explanation): string {
  const [best, other] = known
  const rows: [string, readonly string[]][] = [
    ["MESSAGE", [count > 1 ? `${said.message}  (${count} times)` : said.message]],
    ["PLUGIN", said.plugin === undefined ? [] : [`${said.plugin}, ${said.verb ?? "?"}`]],
    ["CODE", [said.code ?? best?.code].flatMap((code) => (code === undefined ? [] : [String(code)]))],
    ["WHAT", [best?.what ?? ""]],
    ["DO", best?.remedy === undefined ? [] : [best.remedy]],
    ["ALSO", other === undefined ? [] : [[other.what, other.remedy].filter(Boolean).join(": ")]],
    ["LOOK", best?.looks ?? []],
    ["PAGE", [best?.page ?? ""]],
  ]
  const lines = rows.flatMap(([head, cells]) =>
    cells.map((cell, index) => `${(index === 0 ? head : "").padEnd(9)}${cell}\n`),
  )
  return lines.join("")
}

function asJson({ said, known, count }: Explanation) {
  return {
    message: said.message,
    plugin: said.plugin,
    verb: said.verb,
    code: said.code,
    count,
    explanations: known.map(({ pattern, what, remedy, looks, page }) => ({ pattern, what, remedy, looks, page })),
  }
}

/** A section of a page for people to read, without the marks of Markdown. */
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
