import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { copyExecutable } from "../install/mod.ts"
import { runProgram } from "../integration/lab/mod.ts"

/** The directory of Debian's package "containernetworking-plugins". */
const debian = "/usr/lib/cni"

export interface Suite {
  readonly name: "ours" | "Go" | "peer"
  readonly directory: string
}

/**
 * Returns the suites to compare. The plugins of other suites are copied, so that each file is written in one piece like
 * ours, because the layout of a file in the page cache affects the start time.
 */
export function prepareSuites(peer: string | undefined): Suite[] {
  const suites: Suite[] = [{ name: "ours", directory: join(import.meta.dir, "../dist/bin") }]
  suites.push({ name: "Go", directory: copySuite("Go", debian, "install Debian's containernetworking-plugins") })
  if (peer) suites.push({ name: "peer", directory: copySuite("peer", peer, "--peer takes a directory of plugins") })
  return suites
}

function copySuite(name: string, from: string, advice: string): string {
  if (!existsSync(join(from, "bridge")))
    throw new Error(`Cannot measure "${from}": it has no plugin "bridge"; ${advice}`)
  const directory = join(import.meta.dir, "../dist/bench", name)
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true })
  for (const file of readdirSync(from)) {
    if (statSync(join(from, file)).isFile()) copyExecutable(join(from, file), join(directory, file))
  }
  return directory
}

/** Reports whether a suite has a plugin. Some releases of the reference plugins lack newer plugins. */
export function hasPlugin(suite: Suite, plugin: string): boolean {
  return existsSync(join(suite.directory, plugin))
}

/**
 * Returns our suite, and the others that have a plugin. For example, Debian's Go plugins lack dummy, flannel and tap.
 */
export function ableTo(suites: readonly Suite[], plugin: string): Suite[] {
  return suites.filter((suite) => suite.name === "ours" || hasPlugin(suite, plugin))
}

/** Returns the suite to which ratios refer: the Go plugins, if installed. */
export function baselineOf(suites: readonly Suite[]): Suite["name"] {
  return suites.some(({ name }) => name === "Go") ? "Go" : "ours"
}

/** Returns the absolute path of a suite's plugin. Throws if it does not exist. */
export function pluginPath(suite: Suite, plugin: string): string {
  const path = join(suite.directory, plugin)
  if (hasPlugin(suite, plugin)) return path
  throw new Error(`Cannot measure "${path}": it does not exist; run \`npm run bench\``)
}

/** Returns the origin of a suite of reference plugins: Debian's package, or the version that its bridge prints. */
export async function originOf(suite: Suite): Promise<string> {
  if (suite.name === "Go") {
    const { stdout } = await runProgram(["dpkg-query", "--show", "containernetworking-plugins"])
    return `Debian's ${stdout.trim().replace("\t", " ")}`
  }
  const { stdout, stderr } = await runProgram([pluginPath(suite, "bridge")], { env: {} })
  return /plugin (?:version )?(v?[0-9]\S*)/.exec(stdout + stderr)?.[1] ?? "an unknown version"
}

/** Returns the bytes of a suite's files: one plugin, and all that our suite has too. A file is counted once. */
export function sizeOf(suite: Suite, plugins: readonly string[]): { bridge: number; all: number } {
  const files = new Map(plugins.map((name) => statSync(pluginPath(suite, name))).map((file) => [file.ino, file.size]))
  return { bridge: statSync(pluginPath(suite, "bridge")).size, all: [...files.values()].reduce((a, b) => a + b, 0) }
}

/** Returns one contender per suite, by the suite's name. */
export function contendersOf<T>(suites: readonly Suite[], start: (suite: Suite) => T): Record<string, () => T> {
  return Object.fromEntries(suites.map((suite) => [suite.name, () => start(suite)]))
}
