import { test } from "bun:test"
import { pluginRow, pluginsAs } from "./plugins.ts"
import type { Change } from "./snapshot/diff.ts"
import { testWith } from "./test-with.ts"

/**
 * Reports whether a change on the host comes from an interface that DEL or GC leaves to the kernel, which deletes the
 * interface with the container's namespace. The change is one of the interface's lower link, or of a virtual device and
 * its peer.
 */
export function isLeftToKernel(plugin: string, { section, line }: Change): boolean {
  const row = pluginRow(plugin)
  if (row.role === "device") return /\b(dev|far)80\d\d\b/.test(line)
  return row.role === "interface" && !row.hasHostEnd && section === "links" && / promiscuity \d+$/.test(line)
}

export interface CaseOptions {
  /**
   * Whether the case also runs for a plugin that is `like` another, because it tests the plugin's kind of link. Other
   * cases take seconds in a virtual machine, so similar plugins share one run.
   */
  readonly forEachKind?: boolean
  readonly timeoutMs?: number | undefined
}

/** Defines a plugin's shared case. Skips it if the kernel lacks a feature, or a similar plugin's case covers it. */
export function testPlugin(plugin: string, title: string, run: () => Promise<void>, options: CaseOptions = {}): void {
  const { like, staged } = pluginRow(plugin)
  if (staged === false || (like !== undefined && !options.forEachKind)) return
  testWhereItRuns(plugin, title, run, options.timeoutMs)
}

/**
 * Reports whether `CNI_TEST_KINDS` skips this case because another plugin of the same role runs it. With `half`, half
 * of a role's plugins run each case; with `one`, one plugin does. Of plugins that are `like` the same plugin, always
 * one runs a case. The choice depends on the title, so it is the same in each run.
 */
function isLeftToAnother(plugin: string, title: string): boolean {
  const kinds = process.env.CNI_TEST_KINDS
  if (kinds === undefined) return false
  const { like, role } = pluginRow(plugin)
  const ofRole = pluginsAs(role)
  const words = title.replaceAll(new RegExp(ofRole.join("|"), "g"), "")
  const sum = [...words].reduce((total, letter) => total + (letter.codePointAt(0) ?? 0), 0)
  const alike = ofRole.filter((name) => pluginRow(name).like === like)
  if (like !== undefined) return alike[sum % alike.length] !== plugin
  const share = kinds === "half" ? 2 : alike.length
  return alike.length > 1 && (sum + alike.indexOf(plugin)) % share !== 0
}

/** Defines a test of a plugin. The test is skipped if the kernel lacks a feature that the plugin requires. */
export function testWhereItRuns(plugin: string, title: string, run: () => Promise<void>, timeoutMs?: number): void {
  if (isLeftToAnother(plugin, title)) return
  const { needs } = pluginRow(plugin)
  if (needs) testWith(needs, title, run, timeoutMs)
  else test(title, run, timeoutMs)
}

/**
 * Defines a shared case for several plugins. Each of `cases` is a plugin's name, or an object with `plugin` and more
 * values, such as `forEachKind`. In `title`, `%s` is replaced by the name, and `$plugin` or `$key` by a value of the
 * object.
 *
 * @example testPlugins(pluginsAs("ipam"), "%s: GC …", async (plugin) => { … })
 * @example testPlugins(casesOf(pluginsAs(), ways), "$plugin: DEL $what", async ({ plugin, lose }) => { … })
 */
export function testPlugins<Case extends string | ({ readonly plugin: string } & Pick<CaseOptions, "forEachKind">)>(
  cases: readonly Case[],
  title: string,
  run: (one: Case) => Promise<void>,
  options: CaseOptions = {},
): void {
  for (const one of cases) {
    const named: Readonly<Record<string, unknown>> = typeof one === "string" ? { plugin: one } : one
    const words = title.replace("%s", "$plugin").replace(/\$(\w+)/g, (word, key) => String(named[key] ?? word))
    const forEachKind = options.forEachKind || named.forEachKind === true
    testPlugin(String(named.plugin), words, () => run(one), { ...options, forEachKind })
  }
}

export function casesOf<Case extends object>(
  plugins: readonly string[],
  cases: readonly Case[],
): ({ readonly plugin: string } & Case)[] {
  return plugins.flatMap((plugin) => cases.map((one) => ({ plugin, ...one })))
}
