import { unlessErrno } from "../../pkg/libc/mod.ts"
import type { JsonObject, Owner } from "../../pkg/types/mod.ts"
import {
  type Arguments,
  type Command,
  Found,
  given,
  placesOf,
  print,
  runtimeFlags,
  runtimeOf,
  text,
  UsageError,
} from "../command.ts"
import type { Terminal } from "../environment.ts"
import { configuredNetworks, requireNetwork } from "../known-networks.ts"
import { fittedTable } from "../screen.ts"
import type { Cached } from "./attachments.ts"
import { listen } from "./listener.ts"
import type { Outcome, PluginRuns } from "./plugins.ts"
import { failuresOf, reconcileAll } from "./reconcile.ts"

export const reconcile: Command = {
  summary: "Restore lost rules, bridges and settings of attachments on the host",
  words: ["[NETWORK]"],
  needsRoot: true,
  flags: {
    "dry-run": { type: "boolean", help: "only print what would be restored" },
    listen: { type: "boolean", help: "keep running, and restore losses as soon as they happen" },
    containers: {
      type: "boolean",
      help: "also restore missing addresses, routes and settings inside containers",
    },
    flows: {
      type: "boolean",
      help: "flush conntrack flows that began without rules, even when no rule is missing now",
    },
    only: { type: "string", value: "PLUGIN", help: "restore only objects of this plugin" },
    "conf-dir": runtimeFlags["conf-dir"],
    "cache-dir": runtimeFlags["cache-dir"],
    "bin-dir": runtimeFlags["bin-dir"],
    timeout: runtimeFlags.timeout,
    output: runtimeFlags.output,
    json: runtimeFlags.json,
    "no-headers": runtimeFlags["no-headers"],
  },
  help: `Use it after a flush of rules, a restart of another firewall, or the deletion of a bridge: it restores the objects on the host that ADD
created for running containers. It reads the containers and their configurations from the runtime's cache in --cache-dir, and from the
caches below it. Each plugin of this suite restores its objects for all containers at once. Existing objects are not changed. Objects inside containers are restored only with
--containers. Attachments of other suites' plugins are listed, but not restored. The command may run at any time, also several times at once.

--listen is for a service: until SIGTERM it is notified of lost rules, bridges and settings by the kernel, and of firewalld's reloads by D-Bus.

Exit code 1: a restore failed, and a message says why; or the network has neither a configuration nor an attachment.

Examples:
  cni reconcile --dry-run
  cni reconcile
  cni reconcile pods -o json
  cni reconcile --listen`,
  async run(args, terminal) {
    if (given(args, "listen")) return listenHere(args, terminal)
    const { stderr } = terminal
    const isDry = given(args, "dry-run")
    const only = text(args, "only")
    const [network] = args.words
    const reconciled = reconcileAll(
      {
        cacheDir: runtimeOf(args, terminal).cacheDir,
        network,
        isDry,
        flows: given(args, "flows"),
        containers: given(args, "containers"),
        isWanted: (type) => only === undefined || type === only,
      },
      runsOf(args, terminal),
    )
    const { cached, outcome } = reconciled
    const attached = cached.owners.map((owner) => owner.network)
    // An unreadable cache may contain the network.
    if (!cached.skipped.some((one) => one.network === undefined))
      requireNetwork(network, [...attached, ...configuredNetworks(placesOf(args, terminal).confDir, network)])
    print(args, terminal, {
      json: () => asJson(cached, outcome, isDry),
      text: (screen) =>
        fittedTable(COLUMNS, rowsOf(cached, outcome, isDry ? "would restore" : "restored"), screen) ||
        "Nothing to restore\n",
    })
    const failures = failuresOf(reconciled)
    for (const { what, reason } of failures) stderr(`Cannot restore ${what}: ${reason}\n`)
    if (failures.length > 0) throw new Found(1)
  },
}

function runsOf(args: Arguments, terminal: Terminal): PluginRuns {
  const { path, timeoutMs } = runtimeOf(args, terminal)
  return { path, env: terminal.env, log: terminal.stderr, ...(timeoutMs === undefined ? {} : { timeoutMs }) }
}

/** Listens until the signal aborts, and reports each action on stderr. */
async function listenHere(args: Arguments, terminal: Terminal): Promise<void> {
  const other = ["dry-run", "containers", "flows", "only"].find((flag) => given(args, flag) || text(args, flag))
  if (other !== undefined) throw new UsageError(`cannot use --listen with --${other}`)
  if (args.words.length > 0) throw new UsageError("cannot use --listen with a network: it listens for all networks")
  const { cacheDir } = runtimeOf(args, terminal)
  const { stderr, signal } = terminal
  const log = (line: string) => void unlessErrno(() => stderr(`cni reconcile: ${line}\n`)) // the listener continues if the log is full
  const runs = { timeoutMs: CALL_MS, ...runsOf(args, terminal), log: (text: string) => log(text.trimEnd()) }
  await listen({ cacheDir, runs, signal, log })
}

/** The timeout of a plugin, in milliseconds. */
const CALL_MS = 60_000

const COLUMNS = ["RESULT", { head: "NETWORK", isWhole: true }, "PLUGIN", { head: "CONTAINER", isWhole: true }, "WHAT"]

/**
 * Returns rows: one for each restored object, which containers may share, and for each skipped attachment or plugin.
 */
function rowsOf({ skipped }: Cached, { restored, foreign }: Outcome, fate: string): string[][] {
  const groups = Map.groupBy(restored, ({ network, plugin, what }) => [network, plugin, what].join("\n")).values()
  return [
    ...groups.map(([one, ...others]) => {
      const container = others.length === 0 ? containerOf(one) : `${others.length + 1} containers`
      return [fate, one?.network ?? "", one?.plugin ?? "", container, one?.what ?? ""]
    }),
    ...skipped.map((one) => ["skipped", one.network ?? "", "", containerOf(one), one.reason]),
    ...foreign.map(({ network, plugin }) => ["skipped", network, plugin, "", "not a plugin of this suite"]),
  ]
}

function containerOf({ containerId, ifName }: Partial<Owner> = {}): string {
  return containerId === undefined ? "" : `${containerId}/${ifName}`
}

function asJson(cached: Cached, { restored, failed, foreign }: Outcome, dryRun: boolean): JsonObject {
  const skipped = cached.skipped.map(({ isFailure: _, record: __, ...one }) => one)
  return { dryRun, restored, failed, skipped, foreign } as unknown as JsonObject
}
