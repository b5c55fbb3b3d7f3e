import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { copyExecutable } from "../install/mod.ts"
import { runProgram } from "../integration/lab/mod.ts"

/** Debian's package "containernetworking-plugins". */
const debian = "/usr/lib/cni"

/** A directory of plugins' executables that takes part. */
export interface Suite {
  readonly name: "ours" | "Go" | "peer"
  readonly directory: string
}

/**
 * The suites that are compared. All have been written by us, each file in one piece: how a file was written decides how it
 * lies in the page cache, and that is a part of the time of a start.
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

/** Whether a suite has a plugin: of the reference plugins not every release has all. */
export function hasPlugin(suite: Suite, plugin: string): boolean {
  return existsSync(join(suite.directory, plugin))
}

/** Ours, and of the other suites those that have a plugin: Debian's Go plugins have no dummy, flannel or tap. */
export function ableTo(suites: readonly Suite[], plugin: string): Suite[] {
  return suites.filter((suite) => suite.name === "ours" || hasPlugin(suite, plugin))
}

/** What ratios are relative to: the Go plugins, where they are there. */
export function baselineOf(suites: readonly Suite[]): Suite["name"] {
  return suites.some(({ name }) => name === "Go") ? "Go" : "ours"
}

/** The absolute path of a suite's plugin. Throws when it is not there. */
export function pluginPath(suite: Suite, plugin: string): string {
  const path = join(suite.directory, plugin)
  if (hasPlugin(suite, plugin)) return path
  throw new Error(`Cannot measure "${path}": it does not exist; run \`npm run bench\``)
}

/** Where a suite of the reference plugins is from: Debian's package, or what its bridge says about itself. */
export async function originOf(suite: Suite): Promise<string> {
  if (suite.name === "Go") {
    const { stdout } = await runProgram(["dpkg-query", "--show", "containernetworking-plugins"])
    return `Debian's ${stdout.trim().replace("\t", " ")}`
  }
  const { stdout, stderr } = await runProgram([pluginPath(suite, "bridge")], { env: {} })
  return /plugin (?:version )?(v?[0-9]\S*)/.exec(stdout + stderr)?.[1] ?? "an unknown version"
}

/** Bytes of a suite's files: of one plugin, and of all those that ours has too, each file counted once. */
export function sizeOf(suite: Suite, plugins: readonly string[]): { bridge: number; all: number } {
  const files = new Map(plugins.map((name) => statSync(pluginPath(suite, name))).map((file) => [file.ino, file.size]))
  return { bridge: statSync(pluginPath(suite, "bridge")).size, all: [...files.values()].reduce((a, b) => a + b, 0) }
}

/** One contender for each suite, by its name. */
export function contendersOf<T>(suites: readonly Suite[], start: (suite: Suite) => T): Record<string, () => T> {
  return Object.fromEntries(suites.map((suite) => [suite.name, () => start(suite)]))
}
