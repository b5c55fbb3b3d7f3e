import { writeFileSync } from "node:fs"
import { cpus, loadavg, release, totalmem } from "node:os"
import { join } from "node:path"
import { mustRun } from "../integration/lab/mod.ts"
import { drawChart } from "./chart.ts"
import type { Measurement } from "./measure.ts"
import { cellsOf, contenderOf, numbersOf } from "./report.ts"
import type { Verdict } from "./verdicts.ts"

/** What a run was, for its readers. */
export interface Run {
  readonly measurements: readonly Measurement[]
  readonly verdicts: readonly Verdict[]
  /** The options that it was called with. */
  readonly command: string
  /** Sentences on the suites and their sizes. */
  readonly facts: readonly string[]
}

/** What decides times on a machine, and nothing that names it. */
export async function machineFacts(): Promise<string[]> {
  const { stdout } = await mustRun(["df", "--output=fstype", "/var/tmp"])
  const [cpu] = cpus()
  return [
    `Linux ${/^\d+\.\d+/.exec(release())?.[0]}, ${cpus().length} CPUs (${cpu?.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GB of memory`,
    `Load average over the last quarter of an hour: ${loadavg()[2]?.toFixed(1)}, the benchmark's own included`,
    `Leases on ${stdout.trim().split("\n").at(-1)}`,
  ]
}

const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`
const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [row(head), row(head.map(() => "---")), ...rows.map(row)].join("\n")

/** The page that a run makes. */
export function formatPage({ measurements, verdicts, command, facts }: Run): string {
  const rows = measurements.map((measured, at) => {
    const isFirst = measurements[at - 1]?.row !== measured.row
    return [isFirst ? measured.row : "", contenderOf(measured), ...numbersOf(measured)]
  })
  return `# Results

Made by \`${command}\`; [README.md](README.md) says what each row is. Ratios carry over to other machines, times do not.

${facts.map((fact) => `- ${fact}`).join("\n")}

![Time relative to the Go plugins](results.svg)

## Targets

Met or missed where the whole 95 % interval of what was measured lies on one side of a bound; else unsure.

${table(["what", "measured", "95 %", "must", "", "goal", ""], verdicts.map(cellsOf))}

## Rows

Milliseconds of wall time; p99 is the longest of fewer than 100 runs. CPU time in milliseconds and page faults are medians,
memory is the highest of all runs. All three include the processes that a plugin starts.

${table(["row", "contender", "runs", "min", "median", "p99", "max", "CPU", "MB", "faults", "ratio"], rows)}
`
}

/** Writes RESULTS.md and results.svg. */
export function writeResults(run: Run): void {
  writeFileSync(join(import.meta.dir, "RESULTS.md"), formatPage(run))
  writeFileSync(join(import.meta.dir, "results.svg"), drawChart(run.measurements))
}
