import type { JsonObject } from "../pkg/types/mod.ts"
import { printJson } from "../pkg/types/mod.ts"
import {
  type Arguments,
  type Command,
  FOUND_FAULTS,
  Found,
  given,
  nodeFlags,
  placesOf,
  wantsJson,
  word,
} from "./command.ts"
import type { Terminal } from "./environment.ts"
import { attachmentsOf, type Node, type NodeAttachment, readNode } from "./node/mod.ts"
import { type Cell, fittedTable, tinted } from "./screen.ts"
import { age } from "./tables.ts"

const HEADS = ["NETWORK", "CONTAINER", "INTERFACE", "ADDRESS", "PORTS", "HOST", "NAMESPACE", "AGE", "NOTES"] as const

/** The interval of `--watch`. */
const WATCH_MS = 1000

/** Home, and clear from there to the end of the screen. */
const CLEAR = "\x1b[H\x1b[J"

/** `cni ps` */
export const ps: Command = {
  summary: "Show the attachments on this node, and what was left behind",
  words: ["[NETWORK]"],
  flags: {
    orphans: { type: "boolean", help: "only what belongs to no container that lives; exit code 3 when there is any" },
    watch: { type: "boolean", short: "w", help: "show it again every second, until Ctrl-C" },
    ...nodeFlags,
  },
  help: `One row for each interface of a container: pod or container, addresses, published ports, the host's end, whether the network
namespace is there ("?": noted nowhere), age. It is read from the runtime's cache, host-local's store, the links and the packet
filter together; NOTES say what does not fit: a lease without namespace, rules without lease, a link without cache entry.
It only looks. Only root sees the packet filter.

Exit code 0. With --orphans: 0 when there are none, 3 when there are some. 1: it could not look.

Examples:
  cni ps
  cni ps --orphans --json
  cni ps pods --watch`,
  async run(args, terminal) {
    if (given(args, "watch")) return watch(args, terminal)
    const found = look(args, terminal)
    if (wantsJson(args, terminal)) terminal.stdout(`${printJson(found.shown.map(attachmentAsJson))}\n`)
    else terminal.stdout(psTable(found.shown, found.node.readMs, terminal))
    if (given(args, "orphans") && found.shown.length > 0) throw new Found(FOUND_FAULTS)
  },
}

async function watch(args: Arguments, terminal: Terminal): Promise<void> {
  while (!terminal.signal.aborted) {
    const { shown, node } = look(args, terminal)
    if (wantsJson(args, terminal)) terminal.stdout(`${JSON.stringify(shown.map(attachmentAsJson))}\n`)
    else terminal.stdout(`${CLEAR}${new Date(node.readMs).toISOString()}\n\n${psTable(shown, node.readMs, terminal)}`)
    await pause(WATCH_MS, terminal.signal)
  }
}

/** Waits; ends early when the signal says so. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  signal.addEventListener("abort", () => resolve(), { once: true })
  await promise
  clearTimeout(timer)
}

function look(args: Arguments, terminal: Terminal): { node: Node; shown: NodeAttachment[] } {
  const node = readNode(placesOf(args, terminal))
  for (const { what, reason } of node.unread) terminal.stderr(`Warning: cannot see the ${what}: ${reason}\n`)
  const name = args.words.length > 0 ? word(args, 0) : undefined
  const shown = attachmentsOf(node).filter(
    ({ network, ifName, orphan }) =>
      // Some runtimes attach "lo" as well, which is nothing to see.
      (name === undefined ? ifName !== "lo" : network === name) && (!given(args, "orphans") || orphan.length > 0),
  )
  return { node, shown }
}

/** The table for people. Empty columns are left out. `nowMs` since 1970. */
export function psTable(
  attachments: readonly NodeAttachment[],
  nowMs: number,
  screen: Pick<Terminal, "columns" | "colour">,
): string {
  if (attachments.length === 0) return "No attachments\n"
  const rows = attachments.map((one): Cell[] => [
    one.network,
    one.pod ? [one.pod.namespace, one.pod.name].filter((part) => part !== "").join("/") : one.containerId,
    one.ifName || "-",
    one.addresses.join(",") || "-",
    portsCell(one),
    hostEndOf(one) ?? "-",
    namespaceCell(one),
    one.addedMs === undefined ? "-" : age(nowMs - one.addedMs),
    one.orphan.length > 0 ? { text: `orphan: ${orphanNote(one.orphan)}`, tone: "warning" } : "",
  ])
  const isEmpty = (column: number) => rows.every((row) => row[column] === "-" || row[column] === "")
  const kept = HEADS.map((_, column) => column).filter((column) => !isEmpty(column))
  const table = fittedTable(
    kept.map((column) => HEADS[column] ?? ""),
    rows.map((row) => kept.map((column) => row[column] ?? "")),
    screen,
  )
  const orphans = attachments.filter(({ orphan }) => orphan.length > 0).length
  const summary = `${attachments.length} attachment${attachments.length === 1 ? "" : "s"}, ${orphans} orphaned`
  return `${table}\n${orphans > 0 ? tinted(summary, "warning", screen) : summary}\n`
}

/** "lease, cache entry, rules without namespace": what is without the same thing is named together. */
function orphanNote(reasons: readonly string[]): string {
  const groups = new Map<string, string[]>()
  for (const reason of reasons) {
    const at = reason.indexOf(" without ")
    const [what, without] = at === -1 ? [reason, ""] : [reason.slice(0, at), reason.slice(at)]
    groups.getOrInsert(without, []).push(what)
  }
  return [...groups].map(([without, whats]) => `${whats.join(", ")}${without}`).join("; ")
}

/** The link on the host; what lies in the container is no end on the host. */
function hostEndOf({ link }: NodeAttachment): string | undefined {
  return link?.nsid === undefined ? link?.name : undefined
}

/** "8080→80/tcp", and with words behind it a port that was asked for and that no rule serves. */
function portsCell({ ports, unservedPorts }: NodeAttachment): Cell {
  const text = [...ports, ...unservedPorts.map((port) => `${port} (no rules)`)].join(", ") || "-"
  return unservedPorts.length > 0 ? { text, tone: "bad" } : text
}

function namespaceCell({ isAlive, netns }: NodeAttachment): Cell {
  if (isAlive === undefined) return netns === undefined ? "?" : "unknown"
  return isAlive ? { text: "alive", tone: "good" } : { text: "gone", tone: "bad" }
}

/** The attachments as JSON. */
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
    ports: [...ports],
    ...(unservedPorts.length === 0 ? {} : { unservedPorts: [...unservedPorts] }),
    ...(hostEnd === undefined ? {} : { hostInterface: hostEnd }),
    rules: [...new Set(rules.map(({ place }) => place))],
    ...(addedMs === undefined ? {} : { added: new Date(addedMs).toISOString() }),
    sources: [...sources],
    orphan: [...orphan],
  }
}
