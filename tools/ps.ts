import type { JsonObject } from "../pkg/types/mod.ts"
import {
  type Arguments,
  type Command,
  FOUND_FAULTS,
  Found,
  given,
  nodeFlags,
  placesOf,
  print,
  text,
  watchFlags,
} from "./command.ts"
import type { Terminal } from "./environment.ts"
import { networksOf, requireNetwork } from "./known-networks.ts"
import { attachmentsOf, type Node, type NodeAttachment, portAsJson, readNode } from "./node/mod.ts"
import { type Cell, containerText, fittedTable, type Screen, tinted } from "./screen.ts"
import { age, sortedByNames } from "./tables.ts"

/** The table's columns. Name and address always show; a narrow screen drops the least important columns first. */
const COLUMNS = [
  { head: "NETWORK", falls: 7 },
  { head: "NAMESPACE", falls: 8 },
  { head: "CONTAINER", isWhole: true },
  { head: "ID", falls: 1 },
  { head: "INTERFACE", isWhole: true, falls: 4 },
  { head: "ADDRESS", isWhole: true },
  { head: "PORTS", falls: 6 },
  { head: "HOST", isWhole: true, falls: 2 },
  { head: "NETNS", isWhole: true, falls: 5 },
  { head: "AGE", isWhole: true, falls: 3 },
  { head: "NOTES" },
] as const

export const ps: Command = {
  summary: "Show the attachments on this node, and what was left behind",
  words: ["[NETWORK]"],
  flags: {
    orphans: { type: "boolean", help: "only leftovers of deleted containers; exit code 3 if there are any" },
    namespace: { type: "string", short: "n", value: "NAME", help: "only pods of this Kubernetes namespace" },
    "all-namespaces": { type: "boolean", short: "A", help: "pods of every namespace (the default)" },
    ...watchFlags,
    ...nodeFlags,
  },
  help: `One row for each interface of a container: pod or container, addresses, published ports ("standby": the port belongs to another interface
of the container), the host's end, whether the network namespace exists ("?": not recorded), age. The sources are the runtime's cache, host-local's store, the links and the packet
filter. NOTES show contradictions: a lease without namespace, rules without lease, a link without cache entry.
Rows are sorted by their first columns. Nothing is changed. Only root can read the packet filter.

Exit code 0: success. 1: the node could not be read. With --orphans: 0 without orphans, 3 with orphans.

Examples:
  cni ps
  cni ps -n shop -o wide
  cni ps --orphans -o json
  cni ps pods --watch`,
  async run(args, terminal) {
    const { shown, node } = look(args, terminal)
    print(args, terminal, {
      json: () => shown.map(attachmentAsJson),
      text: (screen) => psTable(shown, node.readMs, screen),
    })
    if (given(args, "orphans") && shown.length > 0) throw new Found(FOUND_FAULTS)
  },
}

function look(args: Arguments, terminal: Terminal): { node: Node; shown: NodeAttachment[] } {
  const node = readNode(placesOf(args, terminal), { hasRoutes: false })
  for (const { what, reason } of node.unread) terminal.stderr(`Warning: cannot see the ${what}: ${reason}\n`)
  const [name] = args.words
  const namespace = given(args, "all-namespaces") ? undefined : text(args, "namespace")
  const attachments = attachmentsOf(node)
  requireNetwork(name, networksOf(node, attachments, name))
  const shown = attachments.filter(
    ({ network, ifName, orphan, pod }) =>
      // Some runtimes also attach "lo", which users do not look for.
      (name === undefined ? ifName !== "lo" : network === name) &&
      (namespace === undefined || pod?.namespace === namespace) &&
      (!given(args, "orphans") || orphan.length > 0),
  )
  const columns = ({ network, pod, containerId, ifName }: NodeAttachment) => [
    network,
    pod?.namespace ?? "",
    pod?.name ?? containerId,
    ifName,
  ]
  return { node, shown: sortedByNames(shown, columns) }
}

/** Returns the table for terminals, without empty columns unless wide. `nowMs` is in milliseconds since 1970. */
export function psTable(attachments: readonly NodeAttachment[], nowMs: number, screen: Screen): string {
  if (attachments.length === 0) return screen.hasHeads === false ? "" : "No attachments\n"
  const rows = attachments.map((one): Cell[] => [
    one.network,
    one.pod?.namespace || "-",
    one.pod?.name ?? containerText(one.containerId, screen),
    screen.isWide ? one.containerId : "-",
    one.ifName || "-",
    one.addresses.join(",") || "-",
    portsCell(one),
    hostEndOf(one) ?? "-",
    namespaceCell(one, screen),
    one.addedMs === undefined ? "-" : age(nowMs - one.addedMs),
    one.orphan.length > 0 ? { text: `orphan: ${orphanNote(one.orphan)}`, tone: "warning" } : "",
  ])
  const isEmpty = (column: number) => rows.every((row) => row[column] === "-" || row[column] === "")
  const kept = [...COLUMNS.entries()].filter(([column]) => screen.isWide || !isEmpty(column))
  const table = fittedTable(
    kept.map(([, column]) => column),
    rows.map((row) => kept.map(([column]) => row[column] ?? "")),
    screen,
  )
  if (screen.hasHeads === false) return table
  const orphans = attachments.filter(({ orphan }) => orphan.length > 0).length
  const summary = `${attachments.length} attachment${attachments.length === 1 ? "" : "s"}, ${orphans} orphaned`
  return `${table}\n${orphans > 0 ? tinted(summary, "warning", screen) : summary}\n`
}

/** Returns a note such as "lease, cache entry, rules without namespace". Joins reasons about one missing object. */
function orphanNote(reasons: readonly string[]): string {
  const groups = new Map<string, string[]>()
  for (const reason of reasons) {
    const at = reason.indexOf(" without ")
    const [what, without] = at === -1 ? [reason, ""] : [reason.slice(0, at), reason.slice(at)]
    groups.getOrInsert(without, []).push(what)
  }
  return [...groups].map(([without, whats]) => `${whats.join(", ")}${without}`).join("; ")
}

/** Returns the name of the link on the host, or undefined if the link is in the container. */
function hostEndOf({ link }: NodeAttachment): string | undefined {
  return link?.nsid === undefined ? link?.name : undefined
}

/** Returns ports such as "8080→80/tcp". If a port is not forwarded here, the reason follows in parentheses. */
function portsCell({ ports, unservedPorts, standbyPorts = [] }: NodeAttachment): Cell {
  const missing = unservedPorts.map((port) => `${port} (no rules)`)
  const standby = standbyPorts.map((port) => `${port} (standby)`)
  const text = [...ports, ...standby, ...missing].join(", ") || "-"
  return unservedPorts.length > 0 ? { text, tone: "bad" } : text
}

/** Returns whether the network namespace exists, followed by its path on a wide screen. */
function namespaceCell({ isAlive, netns }: NodeAttachment, { isWide }: Screen): Cell {
  const path = isWide && netns !== undefined ? ` ${netns}` : ""
  if (isAlive === undefined) return netns === undefined ? "?" : `unknown${path}`
  return isAlive ? { text: `alive${path}`, tone: "good" } : { text: `gone${path}`, tone: "bad" }
}

export function attachmentAsJson(one: NodeAttachment): JsonObject {
  const {
    network,
    containerId,
    ifName,
    pod,
    netns,
    isAlive,
    addresses,
    ports,
    unservedPorts,
    standbyPorts = [],
    rules,
    addedMs,
    sources,
    orphan,
  } = one
  const hostEnd = hostEndOf(one)
  return {
    network,
    containerId,
    ifName,
    ...(pod === undefined ? {} : { pod: { ...pod } }),
    ...(netns === undefined ? {} : { netns }),
    ...(isAlive === undefined ? {} : { alive: isAlive }),
    addresses: [...addresses],
    ports: ports.map(portAsJson),
    ...(unservedPorts.length === 0 ? {} : { unservedPorts: unservedPorts.map(portAsJson) }),
    ...(standbyPorts.length === 0 ? {} : { standbyPorts: standbyPorts.map(portAsJson) }),
    ...(hostEnd === undefined ? {} : { hostInterface: hostEnd }),
    rules: [...new Set(rules.map(({ place }) => place))],
    ...(addedMs === undefined ? {} : { added: new Date(addedMs).toISOString() }),
    sources: [...sources],
    orphan: [...orphan],
  }
}
