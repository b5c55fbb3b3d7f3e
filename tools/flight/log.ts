import type { FlightLine, Numbered } from "../../pkg/flight/mod.ts"
import { hostName } from "../../pkg/libc/mod.ts"
import { sleep } from "../../pkg/loop/mod.ts"
import { type Arguments, type Command, given, outputFlags, placesOf, screenOf, text, wantsJson } from "../command.ts"
import { findContainer } from "../containers.ts"
import type { Terminal } from "../environment.ts"
import { configuredNetworks, requireNetwork } from "../known-networks.ts"
import { attachmentsOf, readNode } from "../node/mod.ts"
import { type Cell, containerText, fittedTable, type Screen } from "../screen.ts"
import { otlpOf } from "./otlp.ts"
import { fileFlag, readLines } from "./recorder.ts"

const FOLLOW_MS = 200

export const log: Command = {
  summary: "Show the plugin calls in the flight recorder",
  words: [],
  flags: {
    follow: { type: "boolean", short: "f", help: "also print new calls, until Ctrl-C" },
    container: { type: "string", value: "NAME", help: "only calls for this container; an ID may be abbreviated" },
    network: { type: "string", value: "NETWORK", help: "only calls for this network" },
    failed: { type: "boolean", help: "only calls that failed" },
    otlp: { type: "boolean", help: "print spans as OTLP JSON, for a collector of OpenTelemetry" },
    ...fileFlag,
    ...outputFlags,
  },
  help: `Prints one line for each call: time, plugin and verb, container, duration, and the change or the error. The recorder is off until
"cni recorder on". JSON output is one object per line.

Exit code 0: success. 1: the recorder is off.

Examples:
  cni log --failed
  cni log --follow --container 4e5f6a
  cni log --otlp | curl --json @- http://127.0.0.1:4318/v1/traces`,
  async run(args, terminal) {
    const json = wantsJson(args)
    const screen = screenOf(args, terminal)
    const show = (lines: readonly Numbered[]) => {
      if (lines.length > 0) terminal.stdout(json ? jsonLines(lines) : lineTable(lines, screen))
    }
    const all = required(text(args, "file"))
    const isWanted = filterOf(all, args, terminal)
    const found = all.filter(isWanted)
    if (given(args, "otlp")) {
      terminal.stdout(`${JSON.stringify(otlpOf(found, hostName()))}\n`)
      return
    }
    show(found)
    if (found.length === 0 && !json && !given(args, "follow") && screen.hasHeads) terminal.stdout("No calls\n")
    let next = (found.at(-1)?.sequence ?? -1) + 1
    while (given(args, "follow") && !terminal.signal.aborted) {
      await sleep(FOLLOW_MS, terminal.signal)
      const fresh = (readLines(text(args, "file")) ?? []).filter((one) => one.sequence >= next && isWanted(one))
      next = (fresh.at(-1)?.sequence ?? next - 1) + 1
      show(fresh)
    }
  },
}

function required(file: string | undefined): Numbered[] {
  const lines = readLines(file)
  if (lines === undefined)
    throw new Error('Cannot read the calls: the flight recorder is off; "cni recorder on" starts it')
  return lines
}

/**
 * Returns the filter for the requested calls. Throws for an unknown container, and for an unknown network without
 * calls. With `--follow`, both may appear later.
 */
function filterOf(all: readonly Numbered[], args: Arguments, terminal: Terminal): (one: Numbered) => boolean {
  const [container, network] = [text(args, "container"), text(args, "network")]
  const isOf = (id: string) => all.some(({ line }) => line.container?.startsWith(id))
  const places = placesOf(args, terminal)
  let ids = container === undefined ? undefined : [container]
  try {
    const known = () => [
      ...all.flatMap(({ line }) => line.network ?? []),
      ...configuredNetworks(places.confDir, network),
    ]
    if (network !== undefined) requireNetwork(network, known())
    if (container !== undefined && !isOf(container)) {
      const named = findContainer(container, attachmentsOf(readNode(places, { hasRoutes: false })))
      ids = named.attachments.map(({ containerId }) => containerId)
    }
  } catch (error) {
    if (!given(args, "follow")) throw error
  }
  return ({ line }) =>
    (ids === undefined || ids.some((id) => line.container?.startsWith(id))) &&
    (network === undefined || line.network === network) &&
    (!given(args, "failed") || line.exitCode !== 0)
}

function jsonLines(lines: readonly Numbered[]): string {
  return lines.map(({ sequence, line }) => `${JSON.stringify({ seq: sequence, ...line })}\n`).join("")
}

function lineTable(lines: readonly Numbered[], screen: Screen): string {
  const rows = lines.map(({ line }): Cell[] => [
    line.time.slice(5, 23).replace("T", " "),
    line.verb,
    line.plugin,
    line.network ?? "-",
    containerText(line.container ?? "-", screen),
    line.interface ?? "-",
    `${line.ms.toFixed(1)} ms`,
    outcome(line),
  ])
  return fittedTable(COLUMNS, rows, screen)
}

const COLUMNS = [
  { head: "TIME", isWhole: true },
  { head: "VERB", isWhole: true },
  { head: "PLUGIN", isWhole: true },
  { head: "NETWORK", falls: 3 },
  { head: "CONTAINER", isWhole: true },
  { head: "INTERFACE", isWhole: true, falls: 1 },
  { head: "TOOK", isWhole: true, falls: 2 },
  "OUTCOME",
]

function outcome({ exitCode, code, error, ips = [], changes = [] }: FlightLine): Cell {
  if (exitCode !== 0) return { text: `failed (${code ?? exitCode}): ${error ?? ""}`, tone: "bad" }
  return ["ok", ips.join(", "), changes.join("; ")].filter((part) => part !== "").join(": ")
}
