import type { Measurement } from "./measure.ts"
import { outcomeOf, type Verdict } from "./verdicts.ts"

const columns = ["runs", "min", "median", "p99", "max", "CPU", "MB", "faults", "ratio"] as const

/** Returns the name of a contender and the number of its failed calls, as shown in all tables. */
export function contenderOf({ contender, failed }: Measurement): string {
  return failed === 0 ? contender : `${contender}, ${failed} failed`
}

export function numbersOf(measured: Measurement): string[] {
  const times = [measured.min, measured.median, measured.p99, measured.max, measured.cpuMs].map((ms) => ms.toFixed(2))
  const faults = measured.faults.toFixed(0)
  return [String(measured.runs), ...times, (measured.peakKb / 1024).toFixed(1), faults, formatRatio(measured.ratio)]
}

/**
 * Returns the cells of a verdict: name, value, interval, required bound and its outcome, then the goal and its outcome.
 */
export function cellsOf(verdict: Verdict): string[] {
  const { what, value, interval, unit, atMost, must, goal } = verdict
  const amount = (number: number) => `${number}${unit === "x" ? "" : ` ${unit}`}`
  const bound = (number: number) => `${atMost ? "<=" : ">="} ${amount(number)}`
  const rounded = (number: number) => Number(number.toFixed(2))
  const within = interval ? `${rounded(interval.low)} to ${rounded(interval.high)}` : ""
  const outcome = outcomeOf(verdict, must)
  const reached = goal === undefined ? ["", ""] : [bound(goal), outcomeOf(verdict, goal)]
  return [what, amount(rounded(value)), within, bound(must), outcome === "missed" ? "MISSED" : outcome, ...reached]
}

/** Pads cells to columns. The first column is always aligned to the left. */
function align(rows: readonly (readonly string[])[], pad: "padStart" | "padEnd"): string[] {
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0))) ?? []
  const cell = (text: string, at: number) => (at === 0 ? text.padEnd(widths[0] ?? 0) : text[pad](widths[at] ?? 0))
  return rows.map((row) => row.map(cell).join("  ").trimEnd())
}

/** Formats the measurements as a table with times in milliseconds, one block per row, and the verdicts after it. */
export function formatTables(measurements: readonly Measurement[], verdicts: readonly Verdict[]): string {
  const [head = "", ...lines] = align(
    [["ms", ...columns], ...measurements.map((measured) => [`  ${contenderOf(measured)}`, ...numbersOf(measured)])],
    "padStart",
  )
  const titles = measurements.map(({ row }) => row)
  const blocks = lines.map((line, at) => (titles[at] === titles[at - 1] ? line : `\n${titles[at]}\n${line}`))
  const judged = align([["target", "is", "95 %", "must", "", "goal", ""], ...verdicts.map(cellsOf)], "padEnd")
  return [head, ...blocks, "", ...judged].join("\n")
}

/** Formats a ratio; empty if the Go plugins do not support the step. */
function formatRatio(ratio: number): string {
  return Number.isNaN(ratio) ? "" : ratio.toFixed(2)
}
