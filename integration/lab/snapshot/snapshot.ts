import { HostNamespace, privateDirectories } from "../host-namespace.ts"
import type { Namespace } from "../namespace.ts"
import { ProgramError } from "../program.ts"
import { type Change, diffSnapshots, formatChanges } from "./diff.ts"
import { directoryLines } from "./directory.ts"
import { filterSources } from "./filter-sources.ts"
import { ipSources } from "./ip-sources.ts"
import type { Source } from "./source.ts"
import { sysctlSource } from "./sysctl-source.ts"

/** The state of a namespace: comparable lines, free of counters, handles, indexes and times, by section. */
export type Snapshot = { readonly [section: string]: readonly string[] }

const sources: Readonly<Record<string, Source>> = { ...ipSources, ...filterSources, sysctls: sysctlSource }

/**
 * Everything a plugin may change in a namespace: links, addresses, routes and rules of all tables, queueing, packet
 * filter, sysctls, and for a host the files in `directories` (by default where plugins keep state).
 */
export async function takeSnapshot(
  namespace: Namespace,
  directories: readonly string[] = namespace instanceof HostNamespace ? privateDirectories : [],
): Promise<Snapshot> {
  const root = namespace instanceof HostNamespace ? namespace.file("") : ""
  const sections = await Promise.all([
    ...Object.entries(sources).map(async ([name, source]) => [name, await sourceLines(namespace, source)] as const),
    ...directories.map(async (directory) => [directory, await directoryLines(root, directory)] as const),
  ])
  return Object.fromEntries(sections)
}

async function sourceLines(namespace: Namespace, { command, optional, lines }: Source): Promise<string[]> {
  const [file = "", ...args] = command
  if (optional && Bun.which(file) === null) return []
  const output = await namespace.tryExec(file, args)
  // A kernel without the subject is a fact about the namespace like any other.
  return output.exitCode === 0 ? lines(output.stdout) : [new ProgramError(command, output).message]
}

/**
 * Throws, with a diff in the message, when anything changed between two snapshots except what `allowed` accepts.
 * @example
 * const before = await takeSnapshot(host)
 * …
 * expectUnchanged(before, await takeSnapshot(host), ({ line }) => line.includes("cni0"))
 */
export function expectUnchanged(before: Snapshot, after: Snapshot, allowed?: (change: Change) => boolean): void {
  const changes = diffSnapshots(before, after).filter((change) => !allowed?.(change))
  if (changes.length > 0) throw new Error(`The namespace has changed\n${formatChanges(changes)}`)
}
