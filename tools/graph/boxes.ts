import type { Fault, Member, Segment, Uplink } from "./model.ts"
import { countersText, faultLines, faultNames, memberDetails, segmentDetails, uplinkDetails } from "./text.ts"

/** The widths of boxes, in pixels. */
export const COLUMN = 212
export const HOST_WIDTH = 212
export const SEGMENT_WIDTH = 196
const LINE = 15
const FIRST_LINE = 19
/** The width of a box in characters of the smaller font. */
const ROOM = 30

export function memberHeight(member: Member): number {
  return heightOf(memberLines(member))
}

/** Returns the lines below the title of a container's box. */
function memberLines(one: Member): { text: string; tone: string }[] {
  const name = one.hostEnd === undefined ? one.ifName : `${one.ifName} · ${one.hostEnd}`
  return [
    { text: one.addresses.join(" ") || "no address", tone: "" },
    ...(one.namespace === undefined ? [] : [{ text: `in ${one.namespace}`, tone: "dim" }]),
    { text: `${name}${one.vlanId === undefined ? "" : ` · VLAN ${one.vlanId}`}`, tone: "dim" },
    ...(one.ports.length > 0 ? [{ text: `ports ${one.ports.join(" ")}`, tone: "dim" }] : []),
    ...(one.counters === undefined ? [] : [{ text: countersText(one.counters), tone: "dim" }]),
    ...(one.orphan.length > 0 ? [{ text: shortened(`orphan: ${one.orphan[0]}`, 26), tone: "bad" }] : []),
    ...(one.fault === undefined ? [] : [{ text: shortened(one.fault, 26), tone: "bad" }]),
    ...faultLine(one.faults),
  ]
}

/** Returns a line with the names of doctor's findings, whose full text is in the details. */
function faultLine(faults: readonly Fault[] | undefined): { text: string; tone: string }[] {
  return faults === undefined ? [] : [{ text: shortened(`! ${faultNames(faults)}`, 26), tone: toneOf(faults) }]
}

function toneOf(faults: readonly Fault[]): "bad" | "warn" {
  return faults.some(({ severity }) => severity === "error") ? "bad" : "warn"
}

function classesOf(kind: string, faults: readonly Fault[] | undefined, isOrphan = false): string {
  const state = faults === undefined ? [] : [toneOf(faults) === "bad" ? "faulty" : "doubtful"]
  return [kind, ...state, ...(isOrphan ? ["orphan"] : [])].join(" ")
}

export function memberBox(member: Member, x: number, y: number, height: number): string {
  const lines = memberLines(member).map(({ text, tone }) => ({ text: shortened(text, ROOM), tone }))
  const kind = classesOf("member", member.faults, member.orphan.length > 0 || member.fault !== undefined)
  const { id, title } = member
  const details = memberDetails(member)
  return box({ kind, id, details, x, y, width: COLUMN, height, title: shortened(title, 26), lines }).svg
}

/** Draws the box of a segment: a bridge, a parent, or a network's pairs. */
export function segmentBox(segment: Segment, x: number, y: number) {
  const dim = (text: string) => ({ text: shortened(text, ROOM - 2), tone: "dim" })
  const { title, caption, networks, addresses, members, mtu, counters, isThere, isUp, faults } = segment
  const state = isThere ? (isUp ? undefined : "down") : "not there"
  const lines = [
    dim(networks.length === 1 && networks[0] === title ? caption : `${caption} · ${networks.join(", ")}`),
    ...addresses.map(dim),
    dim(`${members.length} interface${members.length === 1 ? "" : "s"}${mtu === undefined ? "" : ` · MTU ${mtu}`}`),
    ...(counters === undefined ? [] : [dim(countersText(counters))]),
    ...(state === undefined ? [] : [{ text: state, tone: "bad" }]),
    ...faultLine(faults),
  ]
  const kind = classesOf(`segment ${segment.kind}`, faults, !isThere)
  const details = segmentDetails(segment)
  return box({ kind, id: segment.id, details, x, y, width: SEGMENT_WIDTH, title: shortened(title, 24), lines })
}

export function uplinkBox(uplink: Uplink, x: number, y: number) {
  const dim = (text: string) => ({ text: shortened(text, ROOM), tone: "dim" })
  const { id, name: title, kind: made, mtu, addresses, routes, counters, isUp, faults } = uplink
  const lines = [
    ...[...addresses, ...routes, `${made} · MTU ${mtu}`].map(dim),
    ...(counters === undefined ? [] : [dim(countersText(counters))]),
    ...(isUp ? [] : [{ text: "down", tone: "bad" }]),
    ...faultLine(faults),
  ]
  const kind = classesOf("uplink", faults)
  return box({ kind, id, details: uplinkDetails(uplink), x, y, width: HOST_WIDTH, title, lines })
}

/** Draws the box with faults of the node as a whole. */
export function nodeBox(faults: readonly Fault[], x: number, y: number) {
  const lines = faults.map((fault) => ({ text: shortened(`! ${fault.rule}`, 26), tone: toneOf([fault]) }))
  const details = faultLines(faults).join("\n")
  return box({
    kind: classesOf("node", faults),
    id: "node",
    details,
    x,
    y,
    width: HOST_WIDTH,
    title: "this node",
    lines,
  })
}

function heightOf(lines: readonly unknown[]): number {
  return FIRST_LINE + lines.length * LINE + 8
}

/** Draws a box and returns its height. By default, it is as high as its lines. */
function box(one: {
  readonly kind: string
  readonly id: string
  readonly details: string
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height?: number
  readonly title: string
  readonly lines: readonly { text: string; tone: string }[]
}) {
  const { x, y, lines, height = heightOf(lines) } = one
  const svg = group(one.kind, one.id, one.details, [
    rectangle(x, y, one.width, height),
    text(x + 10, y + FIRST_LINE, one.title, "title"),
    ...lines.map((line, at) => text(x + 10, y + FIRST_LINE + (at + 1) * LINE, line.text, line.tone)),
  ])
  return { svg, height }
}

function group(kind: string, id: string, details: string, content: readonly string[]): string {
  return `<g class="${kind}" data-id="${escaped(id)}" tabindex="0"><title>${escaped(details)}</title>${content.join("")}</g>`
}

function rectangle(x: number, y: number, width: number, height: number): string {
  return `<rect class="box" x="${x}" y="${y}" width="${width}" height="${height}" rx="6"/>`
}

export function text(x: number, y: number, content: string, kind: string): string {
  return `<text${kind === "" ? "" : ` class="${kind}"`} x="${x}" y="${y}">${escaped(content)}</text>`
}

function shortened(content: string, room: number): string {
  return content.length <= room ? content : `${content.slice(0, room - 1)}…`
}

/** Escapes text for XML and HTML. Removes characters that XML does not allow. */
export function escaped(content: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: nearly all texts have none of these
  if (!/[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff&<>"]/.test(content)) return content
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are removed
  const text = content.toWellFormed().replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, "")
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")
}
