import type { JsonObject } from "../../pkg/types/mod.ts"
import { type Command, Found, given, print, runtimeFlags, runtimeOf } from "../command.ts"
import { fittedTable } from "../screen.ts"
import { openAnnouncements, readDeleted } from "./announcements.ts"
import { type Cached, readCaches } from "./attachments.ts"
import { type Outcome, restoreChains, takeBackDeleted } from "./plugins.ts"

/** `cni reconcile` */
export const reconcile: Command = {
  summary: "Make again what the host has lost of attachments: rules, bridges, settings",
  words: ["[NETWORK]"],
  flags: {
    "dry-run": { type: "boolean", help: "only say what would be made" },
    "cache-dir": runtimeFlags["cache-dir"],
    "bin-dir": runtimeFlags["bin-dir"],
    timeout: runtimeFlags.timeout,
    output: runtimeFlags.output,
    json: runtimeFlags.json,
    "no-headers": runtimeFlags["no-headers"],
  },
  help: `For the time after a flush of rules, a restart of another firewall, or a deleted bridge: containers go on running, and get back what
ADD made for them on the host. The runtime's cache in --cache-dir, and those below it, say which containers there are and how they
were attached; each plugin of this suite makes what is missing, for all of them at once. What is there stays as it is. What lies in
containers is not touched, and of other suites' plugins nothing is restored: both are named. It may run at any time, also twice at once.

Exit code 1: something could not be made, and a message says why.

Examples:
  cni reconcile --dry-run
  cni reconcile
  cni reconcile pods -o json`,
  async run(args, terminal) {
    const { cacheDir, path, timeoutMs } = runtimeOf(args, terminal)
    const { env, stderr } = terminal
    const isDry = given(args, "dry-run")
    const runs = { path, env, log: stderr, ...(timeoutMs === undefined ? {} : { timeoutMs }) }
    if (!isDry) openAnnouncements()
    const cached = readCaches(cacheDir, args.words[0], readDeleted())
    const made = restoreChains(cached.chains, isDry, runs)
    const outcome = isDry ? made : takeBackDeleted(made, cached.chains, runs)
    print(args, terminal, {
      json: () => asJson(cached, outcome, isDry),
      text: (screen) =>
        fittedTable(COLUMNS, rowsOf(cached, outcome, isDry ? "would restore" : "restored"), screen) ||
        "Nothing to restore\n",
    })
    const failures = failuresOf(cached, outcome)
    for (const line of failures) stderr(`${line}\n`)
    if (failures.length > 0) throw new Found(1)
  },
}

const COLUMNS = ["RESULT", { head: "NETWORK", isWhole: true }, "PLUGIN", { head: "CONTAINER", isWhole: true }, "WHAT"]

/** A row for each thing; where containers have the same, one for all of them. */
function rowsOf({ skipped }: Cached, { restorations, foreign }: Outcome, fate: string): string[][] {
  const made = restorations.flatMap(({ type, restored }) =>
    restored.map(({ network, containerId, ifName, what }) => ({
      row: [fate, network, type, what] as const,
      container: containerId === undefined ? "" : `${containerId}/${ifName}`,
    })),
  )
  const groups = [...Map.groupBy(made, ({ row }) => row.join("\n")).values()]
  return [
    ...groups.flatMap((group) =>
      group.slice(0, 1).map(({ row: [fate, network, type, what], container }) => {
        return [fate, network, type, group.length === 1 ? container : `${group.length} containers`, what]
      }),
    ),
    ...skipped.map(({ network = "", containerId, ifName, reason }) => {
      return ["skipped", network, "", containerId === undefined ? "" : `${containerId}/${ifName}`, reason]
    }),
    ...foreign.map(({ network, type }) => ["skipped", network, type, "", "not a plugin of this suite"]),
  ]
}

function asJson({ skipped }: Cached, { restorations, foreign }: Outcome, isDry: boolean): JsonObject {
  const ofPlugin = <T extends object>(type: string, items: readonly T[]) =>
    items.map((one) => ({ plugin: type, ...one }))
  return {
    dryRun: isDry,
    restored: restorations.flatMap(({ type, restored }) => ofPlugin(type, restored)),
    failed: restorations.flatMap(({ type, failed }) => ofPlugin(type, failed)),
    skipped: skipped.map(({ isFailure: _, ...one }) => one),
    foreign: foreign.map(({ network, type }) => ({ network, plugin: type })),
  } as unknown as JsonObject
}

function failuresOf({ skipped }: Cached, { restorations }: Outcome): string[] {
  const failed = restorations.flatMap((one) => one.failed.map((failure) => ({ type: one.type, ...failure })))
  return [
    ...skipped
      .filter(({ isFailure }) => isFailure)
      .map(({ network, containerId, ifName, reason }) => {
        const name = [network, containerId, ifName].filter((part) => part !== undefined).join("/")
        return `Cannot restore ${name === "" ? "what a cache has" : `"${name}"`}: ${reason}`
      }),
    ...failed.map(({ type, network, containerId, ifName, error: { msg, details } }) => {
      const name = [network, containerId, ifName].filter((part) => part !== undefined).join("/")
      return `${type}${name === "" ? "" : ` of ${name}`}: ${[msg, details].filter((part) => part).join("; ")}`
    }),
  ]
}
