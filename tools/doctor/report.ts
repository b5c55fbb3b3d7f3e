import type { JsonObject } from "../../pkg/types/mod.ts"
import { type ScreenSize, tinted, wrapped } from "../screen.ts"
import { describe } from "./causes.ts"
import type { Examination } from "./examine.ts"
import type { Affected, Finding } from "./finding.ts"
import { type Deletion, describeDeletion } from "./fix.ts"
import { Command, continued } from "./remedy.ts"

/** The number of lines of the longest command that is shown in full without --all. */
const LONG_COMMAND = 6

/** Returns the report for terminals: errors first, then planned deletions. If `isWhole`, names all objects. */
export function report(
  { findings }: Examination,
  deletions: readonly Deletion[],
  screen: ScreenSize,
  isWhole = false,
): string {
  const parts = findings.map((finding) => {
    const isError = finding.severity === "error"
    const head = tinted(isError ? "ERROR" : "WARNING", isError ? "bad" : "warning", screen)
    const lines = [describe(finding, isWhole), `why: ${finding.why}`]
    const note = finding.note === undefined ? "" : wrapped(`note: ${finding.note}`, screen, "  ")
    return `${head} ${tinted(finding.rule, "strong", screen)}\n${lines
      .map((line) => wrapped(line, screen, "  "))
      .join("")}${remedyLines(finding, screen, isWhole)}${note}`
  })
  const fixes = deletions.map((deletion) => `Fixing: ${describeDeletion(deletion)}\n`)
  return [...parts, ...(fixes.length > 0 ? [fixes.join("")] : [])].map((part) => `${part}\n`).join("")
}

/** Returns a remedy's lines. Lines of a command end with a backslash, so that they are one command when pasted. */
function remedyLines({ remedy, rule }: Finding, screen: ScreenSize, isWhole: boolean): string {
  if (!(remedy instanceof Command)) return wrapped(`do: ${remedy}`, screen, "  ")
  const lines = continued(remedy.line, Math.min(screen.columns ?? 100, 120) - 6)
  if (!isWhole && lines.length > LONG_COMMAND)
    return wrapped(`do: a command for all of them, which cni doctor --all prints below ${rule}`, screen, "  ")
  return lines.map((line, at) => `${at === 0 ? "  do: " : "      "}${line}\n`).join("")
}

/** Returns the last line: the number of causes, and the number of orphans that `--fix` deleted before. */
export function summary({ findings, input }: Examination, screen: ScreenSize, fixed = 0): string {
  const errors = findings.filter(({ severity }) => severity === "error").length
  const warnings = findings.length - errors
  const counted = (count: number, what: string) => `${count} ${what}${count === 1 ? "" : "s"}`
  const text = [
    counted(errors, "error"),
    counted(warnings, "warning"),
    `${counted(input.attachments.length, "attachment")} looked at`,
    ...(fixed > 0 ? [`after ${counted(fixed, "deletion")}`] : []),
  ].join(", ")
  return `${tinted(text, errors > 0 ? "bad" : warnings > 0 ? "warning" : "good", screen)}\n`
}

export function asJson(
  { findings }: Examination,
  deletions: readonly Deletion[] = [],
  failures: readonly string[] = [],
): JsonObject {
  return {
    findings: findings.map((finding) => {
      const { rule, severity, network, why, remedy, note, isFixable = false, affected = [] } = finding
      const isCommand = remedy instanceof Command
      return {
        rule,
        severity,
        ...(network === undefined ? {} : { network }),
        what: describe(finding),
        why,
        remedy: isCommand ? remedy.line : remedy,
        pasteable: isCommand,
        ...(note === undefined ? {} : { note }),
        fixable: isFixable,
        affected: affected.map(affectedAsJson),
      }
    }),
    ...(deletions.length > 0 ? { fixes: deletions.map(describeDeletion) } : {}),
    ...(failures.length > 0 ? { failures: [...failures] } : {}),
  }
}

function affectedAsJson({ name, detail, attachment }: Affected): JsonObject {
  const about = { name, ...(detail === undefined ? {} : { detail }) }
  if (attachment === undefined) return about
  const { network, containerId, ifName, pod } = attachment
  return { ...about, network, containerId, ifName, ...(pod === undefined ? {} : { pod: { ...pod } }) }
}
