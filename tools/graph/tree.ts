import { type Cell, containerText, fittedTable, type Screen, tinted } from "../screen.ts"
import type { Graph, Member, Segment, Uplink } from "./model.ts"
import { countersText } from "./text.ts"

/** The picture as text: each segment with a row for each of its containers, below the host's ways out. */
export function treeOf({ uplinks, segments }: Graph, screen: Screen): string {
  const host = uplinks.map((uplink) => uplinkLine(uplink, screen)).join("")
  if (segments.length === 0) return `${host}No attachments\n`
  return [...(host === "" ? [] : [host]), ...segments.map((segment) => segmentText(segment, screen))].join("\n")
}

function uplinkLine({ name, kind, isUp, addresses, routes, counters }: Uplink, screen: Screen): string {
  const said = [kind, ...addresses, ...routes, ...(counters ? [countersText(counters)] : [])].join("  ")
  return `${tinted(name, "strong", screen)}  ${said}${isUp ? "" : `  ${tinted("down", "bad", screen)}`}\n`
}

const COLUMNS = [
  { head: "NAMESPACE", falls: 5 },
  { head: "CONTAINER", isWhole: true },
  { head: "INTERFACE", isWhole: true, falls: 3 },
  { head: "ADDRESS", isWhole: true },
  { head: "PORTS", falls: 4 },
  { head: "HOST", isWhole: true, falls: 2 },
  { head: "TRAFFIC", isWhole: true, falls: 1 },
  "FAULT",
]

function segmentText(segment: Segment, screen: Screen): string {
  const { title, caption, addresses, networks, masquerades, isThere, isUp, members } = segment
  const state = isThere ? (isUp ? "" : "  down") : "  not there"
  const said = [
    ...(caption === title ? [] : [caption]),
    ...addresses,
    ...networks.filter((name) => name !== title),
    ...(masquerades ? ["masquerade"] : []),
  ]
  const head = `${tinted(title, "strong", screen)}  ${said.join("  ")}${tinted(state, "bad", screen)}\n`
  const room = screen.columns === undefined ? screen : { ...screen, columns: screen.columns - 2 }
  const table = fittedTable(
    COLUMNS,
    members.map((member) => rowOf(member, screen)),
    room,
  )
  return `${head}${table.replace(/^(?=.)/gm, "  ")}`
}

function rowOf(one: Member, screen: Screen): Cell[] {
  const faults = [...(one.fault === undefined ? [] : [one.fault]), ...one.orphan]
  return [
    one.namespace ?? "-",
    containerText(one.title, screen),
    one.ifName || "-",
    one.addresses.join(",") || "-",
    one.ports.join(", ") || "-",
    one.hostEnd ?? "-",
    one.counters === undefined ? "-" : countersText(one.counters),
    { text: faults.join("; "), tone: "bad" },
  ]
}
