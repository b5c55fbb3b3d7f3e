import {
  type Files,
  formatRangeSet,
  type HostLocalConfig,
  kernelFiles,
  type Lease,
  listLeases,
  listNetworks,
  parseAddress,
  rangeSetsOf,
  Store,
  usageOf,
} from "../../ipam/host-local/main.ts"
import { basename, join } from "../../pkg/libc/mod.ts"
import { isCniError } from "../../pkg/types/mod.ts"
import type { NetworkFile } from "./networks.ts"

/** The addresses that host-local has handed out in one network. */
export interface LeaseStore {
  readonly network: string
  readonly directory: string
  readonly leases: readonly Lease[]
  /** The range sets of the network's configuration; none when it is configured nowhere. */
  readonly rangeSets: readonly RangeUse[]
}

/** The use of a range set. */
export interface RangeUse {
  /** "10.22.0.1-10.22.255.254" */
  readonly ranges: string
  readonly set: HostLocalConfig["rangeSets"][number]
  readonly used: number
  readonly reclaimable: number
  readonly total: bigint
}

/** The stores in `dataDir`, and those that networks keep elsewhere. Throws `SyscallError`. */
export function readStores(dataDir: string, networks: readonly NetworkFile[]): LeaseStore[] {
  const directories = new Map<string, HostLocalConfig["rangeSets"]>()
  for (const config of networks.flatMap(({ pools }) => pools)) {
    const { directory } = config
    directories.set(directory, [...(directories.get(directory) ?? []), ...knownRanges(config)])
  }
  for (const name of listNetworks(dataDir)) directories.getOrInsert(join(dataDir, name), [])
  return [...directories].map(([directory, sets]) => readStore(directory, sets)).sort(byName)
}

/** None for a pool whose file cannot be used. */
function knownRanges(config: HostLocalConfig): ReturnType<typeof rangeSetsOf> {
  try {
    return rangeSetsOf(config)
  } catch (error) {
    if (isCniError(error)) return []
    throw error
  }
}

function readStore(directory: string, sets: HostLocalConfig["rangeSets"]): LeaseStore {
  const leases = listLeases(new Store({ directory, log: () => {}, files: lookedAtOnce() }))
  const taken = addressesIn(leases)
  const reclaimable = addressesIn(leases.filter((lease) => lease.reclaimable))
  const rangeSets = sets.map((set) => ({ ranges: formatRangeSet(set), set, ...usageOf(set, taken, reclaimable) }))
  return { network: basename(directory), directory, leases, rangeSets }
}

/** Files of which each is looked at once: a survey asks several times, and all of it is of one moment. */
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
