import {
  type Files,
  formatRangeSet,
  type HostLocalConfig,
  kernelFiles,
  knownRangeSets,
  type Lease,
  listLeases,
  listNetworks,
  parseAddress,
  Store,
  usageOf,
} from "../../ipam/host-local/main.ts"
import { basename, findStat, isDirectory, isRegularFile, join, readEntries, unlessErrno } from "../../pkg/libc/mod.ts"
import type { NetworkFile } from "./networks.ts"

/** The addresses that host-local leases to containers of one network. */
export interface LeaseStore {
  readonly network: string
  readonly directory: string
  readonly leases: readonly Lease[]
  /** The range sets in the network's configuration. Empty without a configuration. */
  readonly rangeSets: readonly RangeUse[]
  /** Entries with names of host-local's files or directory, but of another file type. */
  readonly broken: readonly BrokenName[]
}

export interface BrokenName {
  readonly path: string
  readonly kind: "a directory" | "a file" | "a FIFO, a socket or a device" | "a dangling link"
}

/** The number of used addresses in a range set. */
export interface RangeUse {
  /** The ranges as text, such as "10.22.0.1-10.22.255.254". */
  readonly ranges: string
  readonly set: HostLocalConfig["rangeSets"][number]
  readonly used: number
  readonly reclaimable: number
  readonly total: bigint
}

/** Reads the stores in `dataDir`, and those that networks have in other directories. Throws `SyscallError`. */
export function readStores(dataDir: string, networks: readonly NetworkFile[]): LeaseStore[] {
  const directories = new Map<string, HostLocalConfig["rangeSets"]>()
  for (const config of networks.flatMap(({ pools }) => pools)) {
    const { directory } = config
    directories.set(directory, [...(directories.get(directory) ?? []), ...knownRangeSets(config)])
  }
  for (const name of listNetworks(dataDir)) directories.getOrInsert(join(dataDir, name), [])
  return [...directories].map(([directory, sets]) => readStore(directory, sets)).sort(byName)
}

function readStore(directory: string, sets: HostLocalConfig["rangeSets"]): LeaseStore {
  const leases = listLeases(new Store({ directory, log: () => {}, files: lookedAtOnce() }))
  const taken = addressesIn(leases)
  const reclaimable = addressesIn(leases.filter((lease) => lease.reclaimable))
  const rangeSets = sets.map((set) => ({ ranges: formatRangeSet(set), set, ...usageOf(set, taken, reclaimable) }))
  return { network: basename(directory), directory, leases, rangeSets, broken: brokenNames(directory) }
}

/** Names of host-local's files that are not leases. */
const OWN_FILES = /^(lock|last_reserved_ip\.\d+)$/
const INDEX = ".index"

function brokenNames(directory: string): BrokenName[] {
  const isUsed = (name: string) => OWN_FILES.test(name) || parseAddress(name) !== undefined
  const files = namesIn(directory).filter(isUsed)
  const index = join(directory, INDEX)
  const ofIndex = kindOf(index)
  const broken = (path: string): BrokenName[] => {
    const kind = kindOf(path)
    return kind === undefined || kind === "a file" ? [] : [{ path, kind }]
  }
  const inIndex = ofIndex === "a directory" ? namesIn(index).filter((name) => name !== DRAFTS) : []
  return [
    ...files.flatMap((name) => broken(join(directory, name))),
    ...(ofIndex === undefined || ofIndex === "a directory" ? [] : [{ path: index, kind: ofIndex }]),
    ...inIndex.flatMap((name) => broken(join(index, name))),
  ]
}

/** The directory in which files are written before they are renamed to an address. */
const DRAFTS = "new"

/** Returns the names of entries that may not be regular files, of which a store has thousands. */
function namesIn(directory: string): string[] {
  const entries = unlessErrno(() => readEntries(directory), "ENOENT", "ENOTDIR") ?? []
  return entries.flatMap(({ name, isFile }) => (isFile ? [] : [name]))
}

/** Returns the kind of a file, or `undefined` if the name does not exist. */
function kindOf(path: string): BrokenName["kind"] | undefined {
  const found = findStat(path)
  if (found === undefined) return findStat(path, true) === undefined ? undefined : "a dangling link"
  if (isDirectory(found)) return "a directory"
  return isRegularFile(found) ? "a file" : "a FIFO, a socket or a device"
}

/** Returns a file reader that reads the state of each file once, so that all uses see the same moment. */
function lookedAtOnce(): Files {
  const stats = new Map<string, ReturnType<Files["stat"]>>()
  return { ...kernelFiles, stat: (path) => stats.getOrInsertComputed(path, kernelFiles.stat) }
}

function addressesIn(leases: readonly Lease[]) {
  return leases.flatMap(({ address }) => parseAddress(address) ?? [])
}

function byName(a: LeaseStore, b: LeaseStore): number {
  return a.network < b.network ? -1 : 1
}
