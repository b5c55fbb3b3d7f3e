import { type Cell, containerText, fittedTable, type Screen, tinted } from "../screen.ts"
import type { Fault, Graph, Member, Segment, Uplink } from "./model.ts"
import { countersText, faultLines, faultNames } from "./text.ts"

/** Returns the graph as text: the host's uplinks, then each segment with one row for each container. */
export function treeOf({ uplinks, segments, faults }: Graph, screen: Screen): string {
  const host = `${marked(faults, screen)}${uplinks.map((uplink) => uplinkText(uplink, screen)).join("")}`
  if (segments.length === 0) return `${host}No attachments\n`
  return [...(host === "" ? [] : [host]), ...segments.map((segment) => segmentText(segment, screen))].join("\n")
}

/** Returns a line for each finding, in the color of a fault. */
function marked(faults: readonly Fault[] | undefined, screen: Screen): string {
  return faultLines(faults)
    .map((line) => `${tinted(`! ${line}`, line.startsWith("ERROR") ? "bad" : "warning", screen)}\n`)
    .join("")
}

function uplinkText({ name, kind, isUp, addresses, routes, counters, faults }: Uplink, screen: Screen): string {
  const said = [kind, ...addresses, ...routes, ...(counters ? [countersText(counters)] : [])].join("  ")
  const state = isUp ? "" : `  ${tinted("down", "bad", screen)}`
  return `${tinted(name, "strong", screen)}  ${said}${state}\n${marked(faults, screen)}`
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
  return `${head}${marked(segment.faults, screen)}${table.replace(/^(?=.)/gm, "  ")}`
}

function rowOf(one: Member, screen: Screen): Cell[] {
  const found = faultNames(one.faults)
  const faults = [...(found === "" ? [] : [found]), ...(one.fault === undefined ? [] : [one.fault]), ...one.orphan]
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
