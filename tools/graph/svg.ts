import {
  COLUMN,
  HOST_WIDTH,
  memberBox,
  memberHeight,
  nodeBox,
  SEGMENT_WIDTH,
  segmentBox,
  text,
  uplinkBox,
} from "./boxes.ts"
import type { Graph, Segment } from "./model.ts"

/** The colors of a picture. "auto" follows the setting of the viewer's system. */
export type Theme = "auto" | "light" | "dark"

const light =
  "--bg:#ffffff;--fg:#1b2430;--dim:#5b6776;--line:#93a0b0;--box:#f4f6f9;--bridge:#e3eefc;--edge:#3a6fb0;--up:#e6f4ea;--bad:#b3261e;--warn:#8a5300"
const dark =
  "--bg:#12171e;--fg:#e6ebf2;--dim:#9aa7b8;--line:#56657a;--box:#1c242e;--bridge:#17304f;--edge:#7fb2f0;--up:#183a26;--bad:#ff8a80;--warn:#ffcf70"

/** The margin in pixels. */
const MARGIN = 24
const GAP = 12
/** The gap between the host, the segments and their members, in pixels. */
const CHANNEL = 72

/** Returns the number of columns for a segment's members, so that a hundred members are not too high. */
function columnsFor(members: number): number {
  if (members <= 6) return 1
  return Math.min(8, Math.ceil(Math.sqrt(members / 3)))
}

/** Returns the picture as a complete SVG file. */
export function svgOf(graph: Graph, theme: Theme = "auto"): string {
  const parts: string[] = []
  const hostX = MARGIN
  const segmentX = hostX + HOST_WIDTH + CHANNEL
  const memberX = segmentX + SEGMENT_WIDTH + CHANNEL
  let y = MARGIN + 24
  let width = memberX + COLUMN
  const middles: { segment: Segment; y: number }[] = []
  for (const segment of graph.segments) {
    const columns = columnsFor(segment.members.length)
    const height = Math.max(...segment.members.map(memberHeight))
    const rows = Math.ceil(segment.members.length / columns)
    const box = segmentBox(segment, segmentX, y)
    parts.push(trunk(segment, { x: segmentX + SEGMENT_WIDTH, y: y + 30, memberX, top: y, columns, rows, height }))
    parts.push(box.svg)
    segment.members.forEach((member, at) => {
      const column = Math.floor(at / rows)
      parts.push(memberBox(member, memberX + column * (COLUMN + 2 * GAP), y + (at % rows) * (height + GAP), height))
    })
    middles.push({ segment, y: y + 30 })
    width = Math.max(width, memberX + columns * (COLUMN + 2 * GAP) - 2 * GAP)
    y += Math.max(box.height, rows * (height + GAP) - GAP) + 36
  }
  let hostY = MARGIN + 24
  if (graph.faults !== undefined) {
    const box = nodeBox(graph.faults, hostX, hostY)
    parts.push(box.svg)
    hostY += box.height + GAP
  }
  const uplinkMiddles = new Map<string, number>()
  for (const uplink of graph.uplinks) {
    const box = uplinkBox(uplink, hostX, hostY)
    parts.push(box.svg)
    uplinkMiddles.set(uplink.id, hostY + 30)
    hostY += box.height + GAP
  }
  for (const middle of middles) parts.unshift(uplinkLine(middle, uplinkMiddles, [hostX + HOST_WIDTH, segmentX]))
  const height = Math.max(y, hostY, MARGIN + 80)
  if (graph.segments.length === 0) parts.push(text(segmentX, MARGIN + 44, "No attachments", "dim"))
  const heads = [
    text(hostX, MARGIN + 8, "HOST", "head"),
    text(segmentX, MARGIN + 8, "SEGMENTS", "head"),
    text(memberX, MARGIN + 8, "CONTAINERS", "head"),
  ]
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width + MARGIN} ${height}" width="${width + MARGIN}" height="${height}" role="img" aria-label="Container networks of this node">
<style>${styleOf(theme)}</style>
<rect class="bg" width="100%" height="100%"/>
${[...heads, ...parts].join("\n")}
</svg>
`
}

function styleOf(theme: Theme): string {
  const colours = {
    light: `svg{${light}}`,
    dark: `svg{${dark}}`,
    auto: `svg{${light}}@media (prefers-color-scheme:dark){svg{${dark}}}`,
  }[theme]
  return `${colours}
text{font:12px ui-sans-serif,system-ui,"DejaVu Sans",sans-serif;fill:var(--fg)}
.title{font-weight:600;font-size:13px}.dim{fill:var(--dim);font-size:11px}.head{fill:var(--dim);font-size:11px;letter-spacing:.08em}
.bad{fill:var(--bad);font-size:11px;font-weight:600}.warn{fill:var(--warn);font-size:11px;font-weight:600}.bg{fill:var(--bg)}
.box{fill:var(--box);stroke:var(--line)}.bridge .box{fill:var(--bridge);stroke:var(--edge)}.uplink .box{fill:var(--up)}
.doubtful .box{stroke:var(--warn)}.faulty .box{stroke:var(--bad);stroke-width:2}.orphan .box{stroke:var(--bad);stroke-dasharray:5 3}.wire{fill:none;stroke:var(--edge);stroke-width:1.4}.plain{stroke:var(--line)}
g:hover>.box,g:focus>.box{stroke-width:2.5}`
}

/** Draws lines from a segment to the left side of connected members, with a vertical line beside each column. */
function trunk(
  segment: Segment,
  at: { x: number; y: number; memberX: number; top: number; columns: number; rows: number; height: number },
): string {
  const { x, y, memberX, top, columns, rows, height } = at
  const above = top - GAP
  const paths = Array.from({ length: columns }, (_, column) => {
    const count = Math.min(rows, segment.members.length - column * rows)
    const left = memberX + column * (COLUMN + 2 * GAP)
    const rail = left - GAP
    const members = segment.members.slice(column * rows, column * rows + count)
    const connected = members.flatMap(({ fault }, row) => (fault === undefined ? [row] : []))
    const lastRow = connected.at(-1)
    if (lastRow === undefined) return ""
    const stubs = connected.map((row) => `M${rail} ${top + row * (height + GAP) + 22}H${left}`)
    const last = top + lastRow * (height + GAP) + 22
    const from =
      columns === 1
        ? `M${x} ${y}H${rail}M${rail} ${Math.min(y, top + 22)}`
        : `M${x} ${y}H${x + CHANNEL / 2}V${above}H${rail}`
    return `${from}V${Math.max(last, columns === 1 ? y : last)}${stubs.join("")}`
  })
  return `<path class="wire" d="${paths.join("")}"/>`
}

/** Draws the line from a segment to the uplink of its packets, with a label for masquerade. */
function uplinkLine(
  { segment, y }: { segment: Segment; y: number },
  uplinks: ReadonlyMap<string, number>,
  [fromX, toX]: readonly [number, number],
): string {
  const target = segment.uplink === undefined ? [...uplinks.values()][0] : uplinks.get(segment.uplink)
  const labels = [
    ...(segment.masquerades ? ["masq"] : []),
    ...(segment.ports > 0 ? [`${segment.ports} port${segment.ports === 1 ? "" : "s"}`] : []),
  ]
  const middle = (fromX + toX) / 2
  const label = labels.map(
    (each, at) => `<text class="dim" text-anchor="end" x="${toX - 5}" y="${y - 6 + at * 22}">${each}</text>`,
  )
  const line = target === undefined ? `M${middle} ${y}H${toX}` : `M${fromX} ${target}H${fromX + 8}V${y}H${toX}`
  return `<path class="wire plain" d="${line}"/>${label.join("")}`
}
