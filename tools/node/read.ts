import { findStat, isDirectory, isErrno, join, readEntries, readTextFile, unlessErrno } from "../../pkg/libc/mod.ts"
import { type CachedAttachment, cachedAttachments } from "../../pkg/libcni/mod.ts"
import { type FilterRules, readOwnedRules } from "./filter-rules.ts"
import { foreign } from "./foreign.ts"
import { type LeaseStore, readStores } from "./leases.ts"
import { type NodeLink, type NodeRoute, readLinks, readRoutes } from "./links.ts"
import { type NetworkFile, readNetworks } from "./networks.ts"
import { namesOfFiles } from "./plugin-names.ts"
import { RecordedNetwork } from "./recorded.ts"

/** The default directory of host-local's files. */
export const DEFAULT_DATA_DIR = "/var/lib/cni/networks"

export interface NodePlaces {
  readonly confDir: string
  readonly binDirs: readonly string[]
  /** The runtime's cache. Other caches may be in directories below it (`cacheDirs`). */
  readonly cacheDir: string
  /** host-local's directory for networks that set no `dataDir`, or whose configuration no longer exists. */
  readonly dataDir: string
}

/** A part of the node that could not be read, and the reason. The part's list is empty. */
export interface Unread {
  readonly what: "networks" | "cache" | "leases" | "links" | "routes" | "rules"
  readonly reason: string
}

export interface CacheEntry extends CachedAttachment {
  readonly writtenMs: number | undefined
  readonly cacheDir?: string
  /** The network at the time of the ADD, one value for all entries with the same configuration. */
  readonly recorded?: RecordedNetwork
}

/**
 * Returns the caches of a node: the runtime's, and each directory below it that contains a directory `results`.
 * Programs that attach containers themselves have caches there: Multus in `multus`, Firecracker's SDK in one directory
 * per machine.
 */
export function cacheDirs(cacheDir: string): string[] {
  const others = entriesOf(cacheDir).filter(
    (entry) =>
      entry.isDirectory && !NO_CACHES.includes(entry.name) && isDirectoryAt(join(cacheDir, entry.name, "results")),
  )
  return [cacheDir, ...others.map(({ name }) => join(cacheDir, name)).sort()]
}

/**
 * Directories below the runtime's cache that are not caches: the runtime's own results, and host-local's leases, where
 * a network may be named "results".
 */
const NO_CACHES = ["results", "networks"]

function entriesOf(directory: string) {
  try {
    return readEntries(directory)
  } catch {
    return [] // reading the cache itself reports the reason
  }
}

function isDirectoryAt(path: string): boolean {
  const found = findStat(path)
  return found !== undefined && isDirectory(found)
}

/** The state of a node at one moment. */
export interface Node {
  readonly places: NodePlaces
  /** The time of reading, in milliseconds since 1970. */
  readonly readMs: number
  /** The files of the configuration directory in the order in which runtimes search them. */
  readonly networks: readonly NetworkFile[]
  readonly cache: readonly CacheEntry[]
  /** Cache files without a valid record: empty, truncated, or not regular files. */
  readonly brokenRecords?: readonly string[]
  readonly stores: readonly LeaseStore[]
  /** The links of the host, and of namespaces without a veth end on the host. */
  readonly links: readonly NodeLink[]
  readonly routes: readonly NodeRoute[]
  readonly rules: FilterRules
  readonly unread: readonly Unread[]
}

/** Reads a node, without routes unless `hasRoutes`. Never throws: `unread` names the unreadable parts. */
export function readNode(places: NodePlaces, { hasRoutes = true } = {}): Node {
  const unread: Unread[] = []
  const attempt = <T>(what: Unread["what"], read: () => T, otherwise: T): T => {
    try {
      return read()
    } catch (error) {
      unread.push({ what, reason: foreign(reasonOf(error)) })
      return otherwise
    }
  }
  const networks = attempt("networks", () => readNetworks(places.confDir), [])
  const links = attempt("links", readLinks, [])
  const { cache, brokenRecords } = attempt("cache", () => readCached(places), { cache: [], brokenRecords: [] })
  return {
    places,
    readMs: Date.now(),
    networks,
    cache,
    brokenRecords,
    stores: attempt("leases", () => readStores(places.dataDir, networks), []),
    links,
    routes: hasRoutes ? attempt("routes", () => readRoutes(links), []) : [],
    rules: attempt("rules", readOwnedRules, { owned: [], ports: [] }),
    unread,
  }
}

/** Reads each file of the caches once. Throws read errors. */
function readCached({ cacheDir: runtimes, binDirs }: NodePlaces): { cache: CacheEntry[]; brokenRecords: string[] } {
  const networks = new Map<Uint8Array, RecordedNetwork>()
  const nameOf = namesOfFiles(binDirs)
  const found = { cache: [] as CacheEntry[], brokenRecords: [] as string[] }
  for (const cacheDir of cacheDirs(runtimes)) {
    const passOver = (file: string) => {
      if (isBroken(file)) found.brokenRecords.push(file)
    }
    cachedAttachments(cacheDir, undefined, passOver, (one, file) => {
      const recorded = networks.getOrInsertComputed(one.config, (config) => new RecordedNetwork(config, nameOf))
      const owner = {
        network: foreign(one.network),
        containerId: foreign(one.containerId),
        ifName: foreign(one.ifName),
      }
      found.cache.push({ ...one, ...owner, cacheDir, recorded, writtenMs: modifiedMs(file) })
    })
  }
  return found
}

/** Returns cache files that are not regular or not JSON, as after a full disk or power failure. Throws read errors. */
export function brokenRecords(cacheDir: string): string[] {
  const broken: string[] = []
  cachedAttachments(cacheDir, undefined, (file) => {
    if (isBroken(file)) broken.push(file)
  })
  return broken
}

function isBroken(file: string): boolean {
  if (isDirectoryAt(file)) return false
  try {
    JSON.parse(readTextFile(file))
    return false
  } catch (error) {
    if (isErrno(error, "ENOENT")) return false // a DEL has removed it
    if (error instanceof SyntaxError || isErrno(error, "EINVAL", "ENXIO", "ELOOP", "EISDIR")) return true
    throw error
  }
}

function modifiedMs(file: string): number | undefined {
  const found = unlessErrno(() => findStat(file), "ENOTDIR")
  return found && Number(found.modified / 1_000_000n)
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const details = "details" in error && typeof error.details === "string" ? `: ${error.details}` : ""
  return `${error.message}${details}`
}
