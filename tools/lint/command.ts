import { resolve } from "../../pkg/libc/mod.ts"
import { parseCidr } from "../../pkg/types/mod.ts"
import {
  type Command,
  FOUND_FAULTS,
  Found,
  given,
  outputFlags,
  placesOf,
  print,
  runtimeFlags,
  runtimeOf,
  texts,
  UsageError,
} from "../command.ts"
import { type ScreenSize, type Tone, tinted } from "../screen.ts"
import { type Finding, fileTextOf } from "./findings.ts"
import { type LintReport, lint } from "./lint.ts"
import type { Severity } from "./rules.ts"

export const lintCommand: Command = {
  summary: "Find faults in network configurations",
  words: ["[FILE|DIR]"],
  flags: {
    "conf-dir": runtimeFlags["conf-dir"],
    "bin-dir": runtimeFlags["bin-dir"],
    node: { type: "boolean", help: "also check this node; the default without FILE or DIR" },
    "service-range": {
      type: "string",
      multiple: true,
      value: "CIDR",
      help: "address range of Kubernetes services; may be repeated",
    },
    strict: { type: "boolean", help: "warnings count as errors" },
    timeout: runtimeFlags.timeout,
    ...outputFlags,
  },
  help: `Checks every key of every plugin, the order of the chain, addresses, and the files of a directory together, with the tables and
parsers of the plugins. FILE may contain NetworkAttachmentDefinitions, in YAML or JSON. Each finding has file, line and column, a
severity and the name of a rule; "cni explain RULE" explains it. Without FILE or DIR it checks --conf-dir and this node:
interfaces, routes, installed plugins (it runs their VERSION), and on a control plane the range of services.

Exit code 0: no errors. 3: errors, or warnings with --strict. 1: a path could not be checked.

Examples:
  cni lint
  cni lint 10-mynet.conflist --strict
  cni lint /etc/cni/net.d --service-range 10.96.0.0/12 --json`,
  async run(args, terminal) {
    const serviceRanges = texts(args, "service-range")
    const wrong = serviceRanges.find((range) => parseCidr(range) === undefined)
    if (wrong !== undefined) throw new UsageError(`--service-range ${wrong} is not a network such as 10.96.0.0/12`)
    const path = args.words[0] ?? placesOf(args, terminal).confDir
    const looksAtNode = given(args, "node") || args.words[0] === undefined
    const node = looksAtNode ? runtimeOf(args, terminal) : undefined
    const report = await lint(path, { node, serviceRanges })
    const counts = countOf(report.findings)
    print(args, terminal, { json: () => asJson(report, counts), text: (screen) => asText(report, counts, screen) })
    if (counts.error > 0 || (given(args, "strict") && counts.warning > 0)) throw new Found(FOUND_FAULTS)
  },
}

type Counts = Record<Severity, number>

function countOf(findings: readonly Finding[]): Counts {
  const counts = { error: 0, warning: 0, info: 0 }
  for (const { severity } of findings) counts[severity]++
  return counts
}

const tones: Record<Severity, Tone> = { error: "bad", warning: "warning", info: "quiet" }

/** Formats findings like compilers, so that editors can jump to their positions. */
function asText({ findings, sources }: LintReport, counts: Counts, screen: ScreenSize): string {
  const shown = findings.map((finding) => {
    const { file, line, column, severity, rule, message, hint } = finding
    const source = sources.find((each) => each.file === file)
    const text = source && fileTextOf(source).split("\n")[line - 1]
    return [
      `${tinted(`${file}:${line}:${column}:`, "strong", screen)} ${tinted(`${severity}:`, tones[severity], screen)} ${message} ${tinted(`[${rule}]`, "quiet", screen)}\n`,
      ...(text === undefined ? [] : excerpt(text, finding)),
      ...(hint === undefined ? [] : [`      = ${hint}\n`]),
    ].join("")
  })
  const count = filesOf(sources).length
  const files = `${count} ${count === 1 ? "file" : "files"}`
  const found = (["error", "warning", "info"] as const).flatMap((severity) => {
    const name = severity === "info" ? "note" : severity
    const count = counts[severity]
    return count === 0 ? [] : [`${count} ${name}${count === 1 ? "" : "s"}`]
  })
  return `${shown.join("")}${files}: ${found.length === 0 ? "nothing found" : found.join(", ")}\n`
}

/** Returns each file once, although a file with several NetworkAttachmentDefinitions has several sources. */
function filesOf(sources: LintReport["sources"]): string[] {
  return [...new Set(sources.map(({ file }) => file))]
}

const LONGEST = 100

/** Returns the line of a finding, and marks below the faulty text. */
function excerpt(text: string, { line, column, endColumn }: Finding): string[] {
  const characters = [...text.replaceAll("\t", " ")]
  const from = column > LONGEST - 20 ? column - 20 : 0
  const shown = characters.slice(from, from + LONGEST).join("")
  const width = Math.max(1, Math.min(endColumn - column, LONGEST))
  const number = String(line).padStart(5)
  return [`${number} | ${shown}\n`, `      | ${" ".repeat(column - 1 - from)}${"^".repeat(width)}\n`]
}

function asJson({ findings, sources }: LintReport, { error, warning, info }: Counts) {
  return {
    files: filesOf(sources).map((file) => resolve(file)),
    errors: error,
    warnings: warning,
    notes: info,
    findings: findings.map(({ endColumn: _, ...finding }) => ({ ...finding, page: `docs/lint.md#${finding.rule}` })),
  }
}
