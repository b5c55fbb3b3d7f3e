import { readdir, readFile, readlink } from "node:fs/promises"
import { join } from "node:path"
import { HostNamespace, privateDirectories } from "../host-namespace.ts"
import type { Namespace } from "../namespace.ts"
import { ProgramError } from "../program.ts"
import { type Change, diffSnapshots, formatChanges, type Snapshot } from "./diff.ts"
import { filterSources } from "./filter-sources.ts"
import { networkSources } from "./network-sources.ts"
import type { Source } from "./source.ts"

const sources: Readonly<Record<string, Source>> = { ...networkSources, ...filterSources }

/**
 * Returns everything that a plugin may change in a namespace: links, addresses, routes and rules of all tables,
 * queueing disciplines, packet filter rules and sysctls. The snapshot of a host includes the files in `directories`, by
 * default those in which plugins keep state.
 */
export async function takeSnapshot(
  namespace: Namespace,
  directories: readonly string[] = namespace instanceof HostNamespace ? privateDirectories : [],
): Promise<Snapshot> {
  const root = namespace instanceof HostNamespace ? namespace.file("") : ""
  const [ofSources, ...ofDirectories] = await Promise.all([
    sourceSections(namespace),
    ...directories.map(async (directory) => [directory, await directoryLines(root, directory)] as const),
  ])
  return Object.fromEntries([...ofSources, ...ofDirectories])
}

/**
 * The directory of DEL's empty marker files. A marker stays until its interface is deleted, but a test of a single
 * chained plugin does not delete the interface, so snapshots omit this directory.
 */
const DELETIONS = "/run/cni/deletions"

/** The separator between the outputs of two programs. */
const mark = "\u0001\n"

/** Returns the sections of all sources. One shell runs all programs, because entering a namespace is slow. */
async function sourceSections(namespace: Namespace): Promise<(readonly [string, string[]])[]> {
  const present = Object.entries(sources).filter(
    ([, { command, optional }]) => !optional || Bun.which(command[0] ?? ""),
  )
  const script = present.map(([, { command }]) => `${command.map(quote).join(" ")}; printf '\\001\\n%d\\001\\n' $?`)
  const { stdout } = await namespace.exec("sh", ["-c", script.join("\n")])
  const parts = stdout.split(mark)
  return present.map(([name, { command, lines }], at) => {
    const output = {
      stdout: parts[2 * at] ?? "",
      stderr: "",
      exitCode: Number(parts[2 * at + 1]),
      durationMs: 0,
      cpuMs: 0,
    }
    // If the kernel lacks a feature, the program fails, and its error becomes the section's line.
    return [name, output.exitCode === 0 ? lines(output.stdout) : [new ProgramError(command, output).message]]
  })
}

const quote = (word: string) => `'${word.replaceAll("'", "'\\''")}'`

/**
 * Throws with a diff if two snapshots differ, except by changes for which `allowed` returns true.
 *
 * @example
 * const before = await takeSnapshot(host)
 * …
 * expectUnchanged(before, await takeSnapshot(host), ({ line }) => line.includes("cni0"))
 */
export function expectUnchanged(before: Snapshot, after: Snapshot, allowed?: (change: Change) => boolean): void {
  const changes = diffSnapshots(before, after).filter((change) => !allowed?.(change))
  if (changes.length > 0) throw new Error(`The namespace has changed\n${formatChanges(changes)}`)
}

/**
 * Returns a line for each entry in a directory: `path/`, `path = "content"` or `path -> target`. `root` is the path of
 * the file system, which the lines do not contain. Returns no lines if the directory does not exist.
 */
async function directoryLines(root: string, directory: string): Promise<string[]> {
  const all = await readdir(root + directory, { withFileTypes: true }).catch(() => [])
  const entries = all.filter(({ name }) => `${directory}/${name}` !== DELETIONS)
  const lines = entries.map(async (entry) => {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) return [`${path}/`, ...(await directoryLines(root, path))]
    if (entry.isSymbolicLink()) return `${path} -> ${await readlink(root + path)}`
    if (!entry.isFile()) return `${path} (special)`
    return `${path} = ${JSON.stringify(await readFile(root + path, "utf8"))}`
  })
  return (await Promise.all(lines)).flat().sort()
}
