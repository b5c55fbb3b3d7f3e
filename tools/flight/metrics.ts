import { version } from "../../package.json"
import type { Numbered } from "../../pkg/flight/mod.ts"
import { replaceFile } from "../../pkg/libc/mod.ts"
import { type Family, printFamilies, type Sample } from "../../pkg/metrics/mod.ts"
import { type Command, nodeFlags, outputFlags, placesOf, text, wantsJson } from "../command.ts"
import { attachmentsOf, type Node, readNode } from "../node/mod.ts"
import { findListenerRecord, type ListenerRecord, OUTAGE_BUCKETS } from "../reconcile/mod.ts"
import { fileFlag, readLines } from "./recorder.ts"

/** Upper bounds of the histogram, in seconds. */
const BUCKETS = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10]

export const metrics: Command = {
  summary: "Print this node's networks as metrics for Prometheus",
  words: [],
  flags: {
    write: { type: "string", value: "FILE", help: "write to FILE by rename, for node_exporter's textfile collector" },
    ...fileFlag,
    "conf-dir": nodeFlags["conf-dir"],
    "cache-dir": nodeFlags["cache-dir"],
    output: { ...outputFlags.output, choices: ["text", "json"], help: "text or json (default text)" },
    json: outputFlags.json,
  },
  help: `Prints attachments, orphans, used and free addresses; the repairs of cni reconcile, while its listener runs; while the flight recorder is
on: calls, errors and durations of the last 1024 calls. share/systemd has a timer that writes the file.
-o json prints the samples as JSON.

Examples:
  cni metrics
  cni metrics --write /var/lib/prometheus/node-exporter/cni.prom`,
  async run(args, terminal) {
    const node = readNode(placesOf(args, terminal))
    const families = familiesOf(node, readLines(text(args, "file")), findListenerRecord())
    const printed = wantsJson(args) ? `${JSON.stringify(families, undefined, 2)}\n` : printFamilies(families)
    const file = text(args, "write")
    if (file === undefined) terminal.stdout(printed)
    else replaceFile(file, printed)
  },
}

/** Returns a node's metrics, with the recorder's only if it is on, and the listener's only if it runs. */
export function familiesOf(node: Node, lines: readonly Numbered[] | undefined, listener?: ListenerRecord): Family[] {
  const attachments = attachmentsOf(node)
  const names = node.networks.flatMap(({ network }) => network?.name ?? [])
  const networks = [...new Set([...names, ...attachments.map(({ network }) => network)])].sort()
  const count = (isCounted: (one: (typeof attachments)[number]) => boolean) =>
    networks.map((network) => ({
      labels: { network },
      value: attachments.filter((one) => one.network === network && isCounted(one)).length,
    }))
  const ranges = node.stores.flatMap(({ network, rangeSets }) =>
    rangeSets.map(({ ranges, used, total }) => ({ labels: { network, range: ranges }, used, total: Number(total) })),
  )
  const gauge = (name: string, help: string, samples: readonly Sample[]): Family => ({
    name,
    type: "gauge",
    help,
    samples,
  })
  return [
    gauge("cni_info", "The version of the tool.", [{ labels: { version }, value: 1 }]),
    gauge(
      "cni_attachments",
      "Interfaces of containers.",
      count(() => true),
    ),
    gauge(
      "cni_orphans",
      "The number of leftovers of deleted containers.",
      count(({ orphan }) => orphan.length > 0),
    ),
    gauge(
      "cni_addresses_used",
      "Addresses that host-local has handed out.",
      ranges.map(({ labels, used }) => ({ labels, value: used })),
    ),
    gauge(
      "cni_addresses_free",
      "Addresses that host-local can hand out.",
      ranges.map(({ labels, used, total }) => ({ labels, value: Math.max(0, total - used) })),
    ),
    gauge("cni_recorder_on", "Whether the flight recorder is on.", [{ labels: {}, value: lines ? 1 : 0 }]),
    ...(listener ? reconciled(listener) : []),
    ...(lines ? recorded(lines) : []),
  ]
}

function reconciled({ counts, outage, losses }: ListenerRecord): Family[] {
  const { buckets, seconds, count } = outage
  const bounds = OUTAGE_BUCKETS.map((bound, at) => ({ le: String(bound), value: buckets[at] ?? 0 }))
  return [
    {
      name: "cni_reconcile_total",
      type: "counter",
      help: "Runs of the cni reconcile listener, by trigger and result.",
      samples: counts.map(({ trigger, result, count }) => ({ labels: { trigger, result }, value: count })),
    },
    {
      name: "cni_reconcile_outage_seconds",
      type: "histogram",
      help: "Seconds from the notification of a loss to its repair.",
      samples: [
        ...[...bounds, { le: "+Inf", value: count }].map(({ le, value }) => ({
          suffix: "_bucket",
          labels: { le },
          value,
        })),
        { suffix: "_sum", labels: {}, value: seconds },
        { suffix: "_count", labels: {}, value: count },
      ],
    },
    {
      name: "cni_reconcile_losses",
      type: "gauge",
      help: "Losses that the last check of the listener could not repair.",
      samples: [{ labels: {}, value: losses.length }],
    },
  ]
}

function recorded(lines: readonly Numbered[]): Family[] {
  const grouped = (labelsOf: (line: Numbered["line"]) => Record<string, string> | undefined) => {
    const groups = new Map<string, { labels: Record<string, string>; lines: Numbered["line"][] }>()
    for (const { line } of lines) {
      const labels = labelsOf(line)
      if (labels) groups.getOrInsert(JSON.stringify(labels), { labels, lines: [] }).lines.push(line)
    }
    return [...groups.values()]
  }
  const counted = (groups: ReturnType<typeof grouped>) =>
    groups.map((one) => ({ labels: one.labels, value: one.lines.length }))
  const operations = grouped(({ plugin, verb, exitCode }) => ({
    plugin,
    verb,
    result: exitCode === 0 ? "success" : "error",
  }))
  const errors = grouped(({ plugin, verb, exitCode, code }) =>
    exitCode === 0 ? undefined : { plugin, verb, code: String(code ?? 0) },
  )
  const durations = grouped(({ plugin, verb }) => ({ plugin, verb }))
  const total = (lines.at(-1)?.sequence ?? -1) + 1
  return [
    {
      name: "cni_calls_total",
      type: "counter",
      help: "Calls since the recorder was switched on.",
      samples: [{ labels: {}, value: total }],
    },
    { name: "cni_operations", type: "gauge", help: "Calls in the recorder's ring.", samples: counted(operations) },
    {
      name: "cni_errors",
      type: "gauge",
      help: "Failed calls in the recorder's ring, by the error's code.",
      samples: counted(errors),
    },
    {
      name: "cni_operation_duration_seconds",
      type: "histogram",
      help: "How long the calls in the recorder's ring took.",
      samples: durations.flatMap(({ labels, lines: group }) =>
        histogram(
          labels,
          group.map(({ ms }) => ms / 1000),
        ),
      ),
    },
  ]
}

function histogram(labels: Record<string, string>, seconds: readonly number[]): Sample[] {
  const bounds = [...BUCKETS, Number.POSITIVE_INFINITY]
  return [
    ...bounds.map((bound) => ({
      suffix: "_bucket",
      labels: { ...labels, le: bound === Number.POSITIVE_INFINITY ? "+Inf" : String(bound) },
      value: seconds.filter((each) => each <= bound).length,
    })),
    { suffix: "_sum", labels, value: Math.round(seconds.reduce((sum, each) => sum + each, 0) * 1e6) / 1e6 },
    { suffix: "_count", labels, value: seconds.length },
  ]
}
