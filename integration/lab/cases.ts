import { test } from "bun:test"
import { pluginRow } from "./plugins.ts"
import type { Change } from "./snapshot/diff.ts"
import { testWith } from "./test-with.ts"

/**
 * Whether a change of the host is that of an interface which DEL or GC have left in a container, to the kernel: the link that
 * it sits on, or a virtual device and its peer, which go with the namespace.
 */
export function isLeftToKernel(plugin: string, { section, line }: Change): boolean {
  const row = pluginRow(plugin)
  if (row.role === "device") return /\b(dev|far)80\d\d\b/.test(line)
  return row.role === "interface" && !row.hasHostEnd && section === "links" && / promiscuity \d+$/.test(line)
}

/**
 * The shared cases that a plugin has also where another shows the rest for it, by their titles: what becomes of its kind of link.
 * Each costs seconds in a virtual machine, so of similar ones there is one.
 */
const telling = [
  /^#5, .* says nothing, gets that layout/,
  /^#8 .* "vlan\.7_é"/,
  /^#9 .* for its own interface/,
  /^#15, .* \(1\.1\.0\)$/,
  /^#22 .* takes back what /,
  /^#23, #24, #25 /,
  /^#24 /,
  /^#26 .* the interface is down/,
  /^#27 .* redirects the default route/,
  /^#28 .* the lease is gone/,
  /^#29, #30 /,
  /^#31, #32, #34 /,
  /^#35 /,
  /^#46 .* leaves the container's others/,
  / killed at /,
  / does what the page says$/,
  / to a full disk is undone$/,
] as const

/** Which of `telling` matches none of these titles of tests: what it was for, plugins that are like others do not show any more. */
export function unmatchedTelling(titles: readonly string[]): string[] {
  const cases = titles.map((title) => title.replace(/ \(needs [\w, ]+\)$/, ""))
  return telling.filter((pattern) => !cases.some((title) => pattern.test(title))).map(String)
}

/** Whether a plugin has a shared case: not one that another plugin shows for both. */
function hasCase(plugin: string, title: string): boolean {
  const { like, staged } = pluginRow(plugin)
  if (staged === false) return false
  return like === undefined || telling.some((pattern) => pattern.test(title))
}

/** A shared case of a plugin: left out where the kernel lacks what the plugin needs, and where another plugin shows it for both. */
export function testPlugin(plugin: string, title: string, run: () => Promise<void>, timeoutMs?: number): void {
  if (hasCase(plugin, title)) testWhereItRuns(plugin, title, run, timeoutMs)
}

/** A test of a plugin, which is left out where the kernel lacks what the plugin needs. */
export function testWhereItRuns(plugin: string, title: string, run: () => Promise<void>, timeoutMs?: number): void {
  const { needs } = pluginRow(plugin)
  if (needs) testWith(needs, title, run, timeoutMs)
  else test(title, run, timeoutMs)
}

/**
 * A shared case of each of some plugins, by name or with what else a case says; the title has `%s` for the name, or `$plugin`, `$key`.
 * @example testPlugins(pluginsAs("ipam"), "%s: GC …", async (plugin) => { … })
 * @example testPlugins(casesOf(pluginsAs(), ways), "$plugin: DEL $what", async ({ plugin, lose }) => { … })
 */
export function testPlugins<Case extends string | { readonly plugin: string }>(
  cases: readonly Case[],
  title: string,
  run: (one: Case) => Promise<void>,
  timeoutMs?: number,
): void {
  for (const one of cases) {
    const named: Record<string, unknown> = typeof one === "string" ? { plugin: one } : one
    const words = title.replace("%s", "$plugin").replace(/\$(\w+)/g, (word, key) => String(named[key] ?? word))
    testPlugin(String(named.plugin), words, () => run(one), timeoutMs)
  }
}

/** Each of these cases for each of these plugins. */
export function casesOf<Case extends object>(
  plugins: readonly string[],
  cases: readonly Case[],
): ({ readonly plugin: string } & Case)[] {
  return plugins.flatMap((plugin) => cases.map((one) => ({ plugin, ...one })))
}
