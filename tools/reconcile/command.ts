import { unlessErrno } from "../../pkg/libc/mod.ts"
import type { JsonObject } from "../../pkg/types/mod.ts"
import {
  type Arguments,
  type Command,
  Found,
  given,
  print,
  runtimeFlags,
  runtimeOf,
  text,
  texts,
  UsageError,
} from "../command.ts"
import { givenVariables, type Terminal } from "../environment.ts"
import { fittedTable } from "../screen.ts"
import { openAnnouncements, readDeleted } from "./announcements.ts"
import { type Cached, type CachedChain, readCaches } from "./attachments.ts"
import { listen } from "./listener.ts"
import { type Outcome, restoreChains, takeBackDeleted } from "./plugins.ts"

/** `cni reconcile` */
export const reconcile: Command = {
  summary: "Make again what the host has lost of attachments: rules, bridges, settings",
  words: ["[NETWORK]"],
  flags: {
    "dry-run": { type: "boolean", help: "only say what would be made" },
    listen: { type: "boolean", help: "go on, and make again at once what is lost from now on" },
    containers: {
      type: "boolean",
      help: "also make again what is missing in the containers: addresses, routes, settings",
    },
    flows: { type: "boolean", help: "flush flows that began without rules also where all rules are there by now" },
    only: { type: "string", value: "PLUGIN", help: "restore what this plugin has alone" },
    except: {
      type: "string",
      multiple: true,
      value: "NETWORK/PLUGIN[/ID/IFNAME]",
      help: "leave this alone, and say whether it is missing; repeat for each",
    },
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
containers is touched with --containers alone, and of other suites' plugins nothing is restored: both are named. It may run at any time, also twice at once.

--listen is for a service: it hears of lost rules, bridges and settings by the kernel, and of firewalld by D-Bus, until SIGTERM.

Exit code 1: something could not be made, and a message says why.

Examples:
  cni reconcile --dry-run
  cni reconcile
  cni reconcile pods -o json
  cni reconcile --listen`,
  async run(args, terminal) {
    if (given(args, "listen")) return listenHere(args, terminal)
    const { cacheDir, path, timeoutMs } = runtimeOf(args, terminal)
    const { env, stderr } = terminal
    const isDry = given(args, "dry-run")
    const containers = given(args, "containers")
    const flows = given(args, "flows")
    const runs = { path, env, log: stderr, ...(timeoutMs === undefined ? {} : { timeoutMs }) }
    if (!isDry) openAnnouncements()
    const cached = readCaches(cacheDir, args.words[0], readDeleted())
    const excepted = texts(args, "except")
    const isExcepted = exceptions(excepted)
    const only = text(args, "only")
    const isAsked = (type: string) => only === undefined || type === only
    const isLeft = (type: string, owner: CachedChain) => isAsked(type) && isExcepted(type, owner)
    const made = restoreChains(
      cached.chains,
      { dryRun: isDry, flows, containers },
      runs,
      (type, owner) => isAsked(type) && !isExcepted(type, owner),
    )
    const outcome = isDry ? made : takeBackDeleted(made, cached.chains, runs)
    const left = excepted.length === 0 ? undefined : restoreChains(cached.chains, { dryRun: true }, runs, isLeft)
    print(args, terminal, {
      json: () => ({ ...asJson(cached, outcome, isDry), ...(left && { left: restoredOf(left) }) }),
      text: (screen) =>
        fittedTable(COLUMNS, rowsOf(cached, outcome, isDry ? "would restore" : "restored"), screen) ||
        "Nothing to restore\n",
    })
    const failures = failuresOf(cached, outcome)
    for (const line of failures) stderr(`${line}\n`)
    if (failures.length > 0) throw new Found(1)
  },
}

/** Goes on until the signal says stop, and tells on stderr what it does. */
async function listenHere(args: Arguments, terminal: Terminal): Promise<void> {
  const others = ["dry-run", "containers", "flows", "only", "except"]
  const other = others.find(
    (flag) => given(args, flag) || text(args, flag) !== undefined || texts(args, flag).length > 0,
  )
  if (other !== undefined) throw new UsageError(`cannot use --listen with --${other}`)
  if (args.words.length > 0) throw new UsageError("cannot use --listen with a network: it listens for all of them")
  const { cacheDir } = runtimeOf(args, terminal)
  const flags = ["cache-dir", "bin-dir", "timeout"].flatMap((name) => {
    const value = text(args, name)
    return value === undefined ? [] : [`--${name}`, value]
  })
  const { env, stderr, signal } = terminal
  openAnnouncements()
  const log = (line: string) => void unlessErrno(() => stderr(`cni reconcile: ${line}\n`)) // a full log ends no listener
  await listen({ cacheDir, flags, env: givenVariables(env), signal, log })
}

/** The test for what is left alone: "NETWORK/PLUGIN", or of one attachment alone; "*" is any network. */
function exceptions(given: readonly string[]): (type: string, owner: CachedChain) => boolean {
  const listed = new Set(given)
  return (type, { network, containerId, ifName }) =>
    [`${network}/${type}`, `*/${type}`, `${network}/${type}/${containerId}/${ifName}`].some((one) => listed.has(one))
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

/** A plugin's items, each with its name. */
function ofPlugin<T extends object>(plugin: string, items: readonly T[]) {
  return items.map((one) => ({ plugin, ...one }))
}

function restoredOf({ restorations }: Pick<Outcome, "restorations">) {
  return restorations.flatMap(({ type, restored }) => ofPlugin(type, restored))
}

function asJson({ skipped }: Cached, { restorations, foreign }: Outcome, isDry: boolean): JsonObject {
  return {
    dryRun: isDry,
    restored: restoredOf({ restorations }),
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
