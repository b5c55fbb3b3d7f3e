import { writeFileSync } from "node:fs"
import { cpus, loadavg, release, totalmem } from "node:os"
import { join } from "node:path"
import { mustRun } from "../integration/lab/mod.ts"
import type { Measurement } from "./measure.ts"
import { cellsOf, contenderOf, numbersOf } from "./report.ts"
import type { Verdict } from "./verdicts.ts"

export interface Run {
  readonly measurements: readonly Measurement[]
  readonly verdicts: readonly Verdict[]
  readonly command: string
  /** Sentences about the suites and their sizes. */
  readonly facts: readonly string[]
}

/** Returns the properties of this machine that affect times, without its name. */
export async function machineFacts(): Promise<string[]> {
  const { stdout } = await mustRun(["df", "--output=fstype", "/var/tmp"])
  const [cpu] = cpus()
  return [
    `Linux ${/^\d+\.\d+/.exec(release())?.[0]}, ${cpus().length} CPUs (${cpu?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GB of memory`,
    `Load average over the last quarter of an hour: ${loadavg()[2]?.toFixed(1)}, including the benchmark itself`,
    `Leases on ${stdout.trim().split("\n").at(-1)}`,
  ]
}

const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`
const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [row(head), row(head.map(() => "---")), ...rows.map(row)].join("\n")

export function formatPage({ verdicts, command, facts }: Omit<Run, "measurements">): string {
  return `# Figures

How much time and memory do the plugins need, compared with the Go reference plugins?

\`npm run bench -- --write\` writes this page. [bench](../bench/README.md) describes each row, and [rows.csv](../bench/rows.csv) has all rows of this
run in milliseconds. Ratios to the Go plugins are similar on other machines; times are not.

${[`Made by \`${command}\``, ...facts].map((fact) => `- ${fact}`).join("\n")}

A bound is met or missed if the whole 95 % interval of the measured value lies on one side of the bound. Otherwise the verdict is unsure.

${table(["what", "measured", "95 %", "must", "", "goal", ""], verdicts.map(cellsOf))}
`
}

/**
 * Formats all rows of a run as CSV. Times are in milliseconds. For fewer than 100 runs, p99 is the maximum. CPU time
 * and page faults are medians, memory is the maximum of all runs; all three include the processes that a plugin starts.
 */
export function formatRows(measurements: readonly Measurement[]): string {
  const head = ["row", "contender", "runs", "min", "median", "p99", "max", "CPU", "MB", "faults", "ratio"]
  const rows = measurements.map((measured) => [measured.row, contenderOf(measured), ...numbersOf(measured)])
  return [head, ...rows].map((cells) => `${cells.map(quote).join(",")}\n`).join("")
}

const quote = (cell: string) => (/[",]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)

/** Writes docs/figures.md and rows.csv. */
export function writeResults(run: Run): void {
  writeFileSync(join(import.meta.dir, "../docs/figures.md"), formatPage(run))
  writeFileSync(join(import.meta.dir, "rows.csv"), formatRows(run.measurements))
}
