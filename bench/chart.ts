import { loads } from "./load.ts"
import type { Measurement } from "./measure.ts"

const bar = { height: 12, gap: 3, group: 14 } as const
const left = 350
const full = 420
const colours: Readonly<Record<string, string>> = { ours: "#2a78b5", Go: "#b8bcc2", peer: "#8a9099" }

/** The bars of one row, relative to those of the Go plugins. */
interface Group {
  readonly title: string
  readonly bars: readonly { name: string; ms: number; ratio: number }[]
}

function groupsOf(measurements: readonly Measurement[]): Group[] {
  const isIdle = (row: string) => Object.values(loads).every(({ suffix }) => !row.endsWith(suffix))
  const rows = new Set(measurements.map(({ row }) => row).filter(isIdle))
  return [...rows].flatMap((title) => {
    const ofRow = measurements.filter(({ row, contender }) => row === title && contender in colours)
    const base = ofRow.find(({ contender }) => contender === "Go")?.median
    if (base === undefined) return []
    return [
      { title, bars: ofRow.map(({ contender, median }) => ({ name: contender, ms: median, ratio: median / base })) },
    ]
  })
}

const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")

/** Draws a bar per suite for each row without load that both suites have; the longest bar of a row is `full`. */
export function drawChart(measurements: readonly Measurement[]): string {
  let y = 30
  const lines: string[] = []
  for (const { title, bars } of groupsOf(measurements)) {
    const longest = Math.max(...bars.map(({ ratio }) => ratio))
    lines.push(`<text x="${left - 8}" y="${y + bar.height}" text-anchor="end">${escaped(title)}</text>`)
    for (const { name, ms, ratio } of bars) {
      const width = ((ratio / longest) * full).toFixed(1)
      const label = `${ms.toFixed(1)} ms${name === "Go" ? "" : ` (${ratio.toFixed(2)})`}`
      lines.push(`<rect x="${left}" y="${y}" width="${width}" height="${bar.height}" fill="${colours[name]}"/>`)
      lines.push(
        `<text x="${left + Number(width) + 6}" y="${y + bar.height - 2}">${escaped(`${name} ${label}`)}</text>`,
      )
      y += bar.height + bar.gap
    }
    y += bar.group
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${left + full + 170}" height="${y}" font-family="sans-serif" font-size="11" fill="#222">
<title>Wall time of each row, relative to the Go plugins</title>
<rect width="100%" height="100%" fill="#fff"/>
<text x="${left}" y="18" font-size="13">Wall time; in brackets relative to the Go plugins</text>
${lines.join("\n")}
</svg>
`
}
