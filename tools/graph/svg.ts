import type { Graph, Member, Segment, Uplink } from "./model.ts"
import { countersText, memberDetails, segmentDetails, uplinkDetails } from "./text.ts"

/** The colours of a picture: by the preference of the viewer's system, or fixed. */
export type Theme = "auto" | "light" | "dark"

const light =
  "--bg:#ffffff;--fg:#1b2430;--dim:#5b6776;--line:#93a0b0;--box:#f4f6f9;--bridge:#e3eefc;--edge:#3a6fb0;--up:#e6f4ea;--bad:#b3261e"
const dark =
  "--bg:#12171e;--fg:#e6ebf2;--dim:#9aa7b8;--line:#56657a;--box:#1c242e;--bridge:#17304f;--edge:#7fb2f0;--up:#183a26;--bad:#ff8a80"

/** Pixels. */
const MARGIN = 24
const COLUMN = 212
const GAP = 12
const LINE = 15
const FIRST_LINE = 19
const HOST_WIDTH = 212
const SEGMENT_WIDTH = 196
/** Between the host, the segments and their members. */
const CHANNEL = 72
/** Characters of the smaller font that a box has room for. */
const ROOM = 30

/** The number of columns of a segment's members: a picture of a hundred is no strip. */
function columnsFor(members: number): number {
  if (members <= 6) return 1
  return Math.min(8, Math.ceil(Math.sqrt(members / 3)))
}

/** The picture as an SVG file of its own. */
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
  const uplinkMiddles = new Map<string, number>()
  for (const uplink of graph.uplinks) {
    const box = uplinkBox(uplink, hostX, hostY)
    parts.push(box.svg)
    uplinkMiddles.set(uplink.id, hostY + 30)
    hostY += box.height + GAP
  }
  for (const middle of middles)
    parts.unshift(wayOut(middle.segment, middle.y, uplinkMiddles, hostX + HOST_WIDTH, segmentX))
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
.bad{fill:var(--bad);font-size:11px;font-weight:600}.bg{fill:var(--bg)}
.box{fill:var(--box);stroke:var(--line)}.bridge .box{fill:var(--bridge);stroke:var(--edge)}.uplink .box{fill:var(--up)}
.orphan .box{stroke:var(--bad);stroke-dasharray:5 3}.wire{fill:none;stroke:var(--edge);stroke-width:1.4}.plain{stroke:var(--line)}
g:hover>.box,g:focus>.box{stroke-width:2.5}`
}

function memberHeight(member: Member): number {
  return FIRST_LINE + memberLines(member).length * LINE + 8
}

/** The lines under the title of a container. */
function memberLines(one: Member): { text: string; tone: string }[] {
  const name = one.hostEnd === undefined ? one.ifName : `${one.ifName} · ${one.hostEnd}`
  return [
    { text: one.addresses.join(" ") || "no address", tone: "" },
    { text: `${name}${one.vlanId === undefined ? "" : ` · VLAN ${one.vlanId}`}`, tone: "dim" },
    ...(one.ports.length > 0 ? [{ text: `ports ${one.ports.join(" ")}`, tone: "dim" }] : []),
    ...(one.counters === undefined ? [] : [{ text: countersText(one.counters), tone: "dim" }]),
    ...(one.orphan.length > 0 ? [{ text: shortened(`orphan: ${one.orphan[0]}`, 26), tone: "bad" }] : []),
    ...(one.fault === undefined ? [] : [{ text: shortened(one.fault, 26), tone: "bad" }]),
  ]
}

function memberBox(member: Member, x: number, y: number, height: number): string {
  const lines = memberLines(member)
  const kind = member.orphan.length > 0 || member.fault !== undefined ? "member orphan" : "member"
  return group(kind, member.id, memberDetails(member), [
    rectangle(x, y, COLUMN, height),
    text(x + 10, y + FIRST_LINE, shortened(member.title, 26), "title"),
    ...lines.map((line, at) => text(x + 10, y + FIRST_LINE + (at + 1) * LINE, shortened(line.text, ROOM), line.tone)),
  ])
}

function segmentBox(segment: Segment, x: number, y: number) {
  const lines = [
    segment.networks.length === 1 && segment.networks[0] === segment.title
      ? segment.caption
      : `${segment.caption} · ${segment.networks.join(", ")}`,
    ...segment.addresses,
    `${segment.members.length} interface${segment.members.length === 1 ? "" : "s"}${segment.mtu === undefined ? "" : ` · MTU ${segment.mtu}`}`,
    ...(segment.counters === undefined ? [] : [countersText(segment.counters)]),
  ]
  const fault = segment.isThere ? (segment.isUp ? undefined : "down") : "not there"
  const height = FIRST_LINE + (lines.length + (fault === undefined ? 0 : 1)) * LINE + 8
  const kind = `segment ${segment.kind}${segment.isThere ? "" : " orphan"}`
  const svg = group(kind, segment.id, segmentDetails(segment), [
    rectangle(x, y, SEGMENT_WIDTH, height),
    text(x + 10, y + FIRST_LINE, shortened(segment.title, 24), "title"),
    ...lines.map((line, at) => text(x + 10, y + FIRST_LINE + (at + 1) * LINE, shortened(line, ROOM - 2), "dim")),
    ...(fault === undefined ? [] : [text(x + 10, y + FIRST_LINE + (lines.length + 1) * LINE, fault, "bad")]),
  ])
  return { svg, height }
}

function uplinkBox(uplink: Uplink, x: number, y: number) {
  const lines = [
    ...uplink.addresses,
    ...uplink.routes,
    `${uplink.kind} · MTU ${uplink.mtu}`,
    ...(uplink.counters === undefined ? [] : [countersText(uplink.counters)]),
  ]
  const height = FIRST_LINE + (lines.length + (uplink.isUp ? 0 : 1)) * LINE + 8
  const svg = group("uplink", uplink.id, uplinkDetails(uplink), [
    rectangle(x, y, HOST_WIDTH, height),
    text(x + 10, y + FIRST_LINE, uplink.name, "title"),
    ...lines.map((line, at) => text(x + 10, y + FIRST_LINE + (at + 1) * LINE, shortened(line, ROOM), "dim")),
    ...(uplink.isUp ? [] : [text(x + 10, y + FIRST_LINE + (lines.length + 1) * LINE, "down", "bad")]),
  ])
  return { svg, height }
}

/** From a segment to the left side of each of its members that is connected: one line down beside each column. */
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

/** From a segment to where its containers' packets leave the host, with what happens to them there. */
function wayOut(segment: Segment, y: number, uplinks: ReadonlyMap<string, number>, fromX: number, toX: number): string {
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

function group(kind: string, id: string, details: string, content: readonly string[]): string {
  return `<g class="${kind}" data-id="${escaped(id)}" tabindex="0"><title>${escaped(details)}</title>${content.join("")}</g>`
}

function rectangle(x: number, y: number, width: number, height: number): string {
  return `<rect class="box" x="${x}" y="${y}" width="${width}" height="${height}" rx="6"/>`
}

function text(x: number, y: number, content: string, kind: string): string {
  return `<text${kind === "" ? "" : ` class="${kind}"`} x="${x}" y="${y}">${escaped(content)}</text>`
}

function shortened(content: string, room: number): string {
  return content.length <= room ? content : `${content.slice(0, room - 1)}…`
}

/** Text as it stands in XML and HTML; characters that XML has none of are left out. */
export function escaped(content: string): string {
  const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is left out
  return content.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, "").replace(/[&<>"]/g, (each) => entities[each] ?? "")
}
