import type { JsonObject } from "../../pkg/types/mod.ts"
import { type ScreenSize, tinted, wrapped } from "../screen.ts"
import type { Examination } from "./examine.ts"
import { type Deletion, describeDeletion } from "./fix.ts"

/** A report for people: errors first, each with its reason and its remedy, then the planned deletions. */
export function report({ findings }: Examination, deletions: readonly Deletion[], screen: ScreenSize): string {
  const parts = findings.map((finding) => {
    const isError = finding.severity === "error"
    const head = tinted(isError ? "ERROR" : "WARNING", isError ? "bad" : "warning", screen)
    return `${head} ${tinted(finding.rule, "strong", screen)}\n${[
      finding.what,
      `why: ${finding.why}`,
      `do: ${finding.remedy}`,
    ]
      .map((line) => wrapped(line, screen, "  "))
      .join("")}`
  })
  const fixes = deletions.map((deletion) => `Fixing: ${describeDeletion(deletion)}\n`)
  return [...parts, ...(fixes.length > 0 ? [fixes.join("")] : [])].map((part) => `${part}\n`).join("")
}

/** The last line: how much is wrong, and how many orphans were deleted before this was looked at. */
export function summary({ findings, patient }: Examination, screen: ScreenSize, fixed = 0): string {
  const errors = findings.filter(({ severity }) => severity === "error").length
  const warnings = findings.length - errors
  const counted = (count: number, what: string) => `${count} ${what}${count === 1 ? "" : "s"}`
  const text = [
    counted(errors, "error"),
    counted(warnings, "warning"),
    `${counted(patient.attachments.length, "attachment")} looked at`,
    ...(fixed > 0 ? [`after ${counted(fixed, "deletion")}`] : []),
  ].join(", ")
  return `${tinted(text, errors > 0 ? "bad" : warnings > 0 ? "warning" : "good", screen)}\n`
}

/** The report as JSON. */
export function asJson(
  { findings }: Examination,
  deletions: readonly Deletion[] = [],
  failures: readonly string[] = [],
): JsonObject {
  return {
    findings: findings.map(({ rule, severity, network, what, why, remedy, orphan }) => ({
      rule,
      severity,
      ...(network === undefined ? {} : { network }),
      what,
      why,
      remedy,
      fixable: orphan !== undefined,
    })),
    ...(deletions.length > 0 ? { fixes: deletions.map(describeDeletion) } : {}),
    ...(failures.length > 0 ? { failures: [...failures] } : {}),
  }
}
