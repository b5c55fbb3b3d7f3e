import type { Measurement } from "./measure.ts"

const columns = ["runs", "min", "median", "max", "ratio"] as const

/** The measurements as an aligned table, times in milliseconds, one block per row of the benchmark. */
export function formatTable(measurements: readonly Measurement[]): string {
  const cells = measurements.map((measured) => [
    `  ${measured.contender}`,
    String(measured.runs),
    ...[measured.min, measured.median, measured.max].map((ms) => ms.toFixed(2)),
    measured.ratio.toFixed(2) + (measured.target === undefined ? "" : ` ${verdict(measured.ratio, measured.target)}`),
  ])
  const titles = measurements.map(({ row }) => row)
  const firstWidth = Math.max(...titles.map((title) => title.length), ...cells.map(([name = ""]) => name.length))
  const line = ([name = "", ...numbers]: readonly string[]) =>
    [name.padEnd(firstWidth), ...numbers.map((text, i) => (i < 4 ? text.padStart(9) : `  ${text}`))].join("").trimEnd()
  const blocks = cells.map((row, i) => (titles[i] === titles[i - 1] ? line(row) : `\n${titles[i]}\n${line(row)}`))
  return [line(["ms", ...columns]), ...blocks].join("\n")
}

function verdict(ratio: number, target: number): string {
  return ratio <= target ? `(target ${target}: met)` : `(target ${target}: MISSED)`
}
