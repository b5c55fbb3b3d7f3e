import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { ownCommand } from "../../pkg/libc/mod.ts"
import { runProgram } from "../../pkg/loop/mod.ts"
import { messageOf, parseJsonObject } from "../../pkg/types/mod.ts"
import type { Loss } from "./record.ts"

/** A look that takes longer is ended. */
const LOOK_MS = 60_000
const OUTPUT_BYTES = 16 << 20

/** What the listener goes by. */
export interface ListenerOptions {
  readonly cacheDir: string
  /** The flags for `cni reconcile`. */
  readonly flags: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly log: (line: string) => void
  readonly signal: AbortSignal
}

/** What is left of the answer of `cni reconcile -o json`. */
export interface Looked {
  readonly restored: readonly Item[]
  readonly left: readonly Item[]
  readonly failed: readonly (Item & { readonly error: { readonly msg: string } })[]
  /** What its messages say of caches and records that tell nothing. */
  readonly unread: readonly string[]
}
export interface Item {
  readonly plugin: string
  readonly network?: string
  readonly containerId?: string
  readonly ifName?: string
  readonly what?: string
}

/** The plugins that have something in a table. */
const USERS: Readonly<Record<string, string>> = {
  cni_masquerade: "*/bridge */ptp",
  cni_spoofcheck: "*/bridge",
  cni_hostports: "*/portmap",
  cni_firewall: "*/firewall",
}

/** Runs `cni reconcile` with these flags beside the listener's, in a process of its own, whose memory goes with it. Throws what went wrong with it. */
export async function look({ flags, env, signal }: ListenerOptions, more: readonly string[]): Promise<Looked> {
  const [path = "", ...own] = ownCommand()
  const args = [...own, "reconcile", "-o", "json", ...flags, ...more]
  const limits = { timeoutMs: LOOK_MS, outputLimit: OUTPUT_BYTES, ownSession: true }
  const { stdout, stderr, stopped } = await runProgram({ path, args, env, ...limits }, signal)
  const nothing = { restored: [], left: [], failed: [], unread: [] }
  if (stopped) return nothing
  const unread = decodeUtf8(stderr)
    .split("\n")
    .filter((line) => line.startsWith("Cannot restore "))
  try {
    const answer = parseJsonObject(decodeUtf8(stdout), "answer of cni reconcile") as unknown as Looked
    return { ...nothing, ...answer, unread }
  } catch (error) {
    throw new Error(decodeUtf8(stderr).trim() || messageOf(error))
  }
}

/** The flags by which a look leaves alone what others remove again and again: items, and the plugins that use these tables. */
export function exceptFlags(over: readonly string[]): string[] {
  const excepted = over.flatMap((what) => (USERS[what.split(" ")[2] ?? ""] ?? what).split(" "))
  return excepted.flatMap((what) => ["--except", what])
}

/** As `--except` takes it. */
export function keyOf({ network = "*", plugin, containerId, ifName }: Item): string {
  return [network, plugin, ...(containerId === undefined ? [] : [containerId, ifName])].join("/")
}

/** What is gone after a look that has left these alone, and why. What a plugin has is left with its table: that is one loss for all containers. */
export function lossesOf({ left, failed, unread }: Looked, over: readonly string[]): Loss[] {
  const isOver = (item: Item) => over.includes(keyOf(item))
  const withTables = Map.groupBy(
    left.filter((item) => !isOver(item)),
    ({ plugin }) => plugin,
  )
  const fought = [
    ...(left.length > 0 ? over.filter(isTable) : []),
    ...[...withTables].map(([plugin, items]) => `what ${plugin} has of ${containersOf(items)}`),
    ...left.filter(isOver).map(nameOf),
  ]
  return [
    ...fought.map((what) => ({ what, reason: "it was removed three times in a minute" })),
    ...failed.map((item) => ({ what: nameOf(item), reason: item.error.msg })),
    ...unread.map((line) => {
      const [, what = "what a cache has", reason = line] =
        /^Cannot restore (what a cache has|"[^"]*"): (.*)$/.exec(line) ?? []
      return { what, reason }
    }),
  ]
}

function containersOf(items: readonly Item[]): string {
  const ids = new Set(items.flatMap(({ containerId }) => containerId ?? []))
  return ids.size === 1 ? `container ${[...ids][0]}` : `${ids.size} containers`
}

function nameOf(item: Item): string {
  return `${item.what ?? "what it has on the host"} of ${keyOf(item)}`
}

/** Whether that is a table, as the watch of rules names it, and not an item. */
function isTable(what: string): boolean {
  return what.startsWith("table ")
}
