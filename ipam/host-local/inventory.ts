import { isErrno, SyscallError } from "../../pkg/libc/mod.ts"
import { CniError, Code, isCniError } from "../../pkg/types/mod.ts"
import { type Files, ifPresent, kernelFiles } from "./files.ts"
import { type LeaseOwner, listAddresses, toolHint } from "./lease-file.ts"
import { type Liveness, livenessOf, namespaceExists } from "./liveness.ts"
import { requireLockable } from "./lock.ts"
import { type Address, capacityOf, formatRangeSet, isKeptBack, parseAddress, type RangeSet, rangeOf } from "./ranges.ts"
import type { Store } from "./store.ts"
import { surveyStore } from "./survey.ts"

/** A taken address, for display and tools. */
export interface Lease {
  readonly address: string
  /** The owner of the reservation; "torn" if the file is empty or incomplete, "foreign" if it is not a reservation. */
  readonly holder: LeaseOwner | "torn" | "foreign"
  /** The write time of the file, in milliseconds since 1970. */
  readonly writtenMs: number
  /** The path of the container's network namespace, and whether the namespace exists. Absent if it was not recorded. */
  readonly netns?: { path: string; exists: boolean }
  /** The state of the owner. Absent for files that are not reservations. */
  readonly liveness?: Liveness
  /** Whether an ADD would release the address before it fails for lack of addresses. */
  readonly reclaimable: boolean
}

/** Returns the networks with reservations in a `dataDir`: every directory with a lock file. */
export function listNetworks(dataDir: string, files: Files = kernelFiles): string[] {
  const names = ifPresent(() => files.readDirectory(dataDir)) ?? []
  return names.filter((name) => {
    try {
      return files.stat(`${dataDir}/${name}/lock`) !== undefined
    } catch (error) {
      if (isErrno(error, "ENOENT", "ENOTDIR", "EACCES")) return false
      throw error
    }
  })
}

/** Returns the taken addresses of a network, by the names of their files, which it does not read. Takes no lock. */
export function takenAddresses({ files, directory }: Store): string[] {
  return ifPresent(() => Array.from(listAddresses(files, directory), ([name]) => name)) ?? [] // there is no store
}

/** Returns the taken addresses of a network, each with its owner. Takes no lock and changes nothing. */
export function listLeases(store: Store): Lease[] {
  const { files, directory } = store
  const taken: { address: string; holder: Lease["holder"] }[] = []
  const found = ifPresent(() => surveyStore(store, (_, address, holder) => taken.push({ address, holder })))
  if (!found) return [] // there is no store
  const records = new Map(found.records.flatMap((record) => record.addresses.map((address) => [address, record])))
  return taken.flatMap(({ address, holder }) => {
    const written = ifPresent(() => files.stat(`${directory}/${address}`).modified)
    if (written === undefined) return [] // removed in the meantime
    const reclaimable = found.reclaimable.has(address)
    const lease = { address, holder, writtenMs: Number(written / 1_000_000n), reclaimable }
    const record = typeof holder === "object" ? records.get(address) : undefined
    if (!record) return [lease]
    const netns = record.netns && { path: record.netns.path, exists: namespaceExists(files, record.netns) }
    return [{ ...lease, ...(netns && { netns }), liveness: livenessOf(store, record, netns?.exists ?? false) }]
  })
}

/**
 * Checks whether ADD can succeed: the store accepts new files, and each range set has free addresses. Throws code 50. A
 * full range set is only logged to stderr, because runtimes start no container on a node whose STATUS fails, even if
 * the container needs no new address.
 */
export function checkStatus(store: Store, rangeSets: readonly RangeSet[]): void {
  const refusal = `Cannot reserve addresses in "${store.directory}"`
  try {
    store.tryLease()
    requireLockable(store.directory)
  } catch (error) {
    if (!(error instanceof SyscallError || isCniError(error, Code.Io) || isCniError(error, Code.TryAgainLater)))
      throw error
    throw new CniError(Code.PluginNotAvailable, refusal, { cause: error })
  }
  const taken = Array.from(listAddresses(store.files, store.directory), ([, address]) => address)
  let reclaimable: readonly Address[] | undefined // only for a full set, because this reads every reservation
  for (const [index, set] of rangeSets.entries()) {
    const name = `range set ${index} (${formatRangeSet(set)})`
    if (usageOf(set, taken).used < capacityOf(set)) continue
    if (capacityOf(set) === 0n)
      throw new CniError(Code.PluginNotAvailable, `${refusal}: ${name} has no addresses to assign`)
    reclaimable ??= [...surveyStore(store).reclaimable].flatMap((text) => parseAddress(text) ?? [])
    const usage = usageOf(set, taken, reclaimable)
    if (usage.reclaimable > 0) continue
    store.log(
      `${refusal}: ${name} is full, ${usage.used} of ${usage.total} addresses used; ` +
        `"cni ipam ls" shows their holders, and GC frees those of deleted containers ${toolHint}`,
    )
  }
}

/** Returns the use of a range set: the number of taken addresses, how many of them are reclaimable, and the total. */
export function usageOf(
  set: RangeSet,
  taken: readonly Address[],
  reclaimable: readonly Address[] = [],
): { used: number; reclaimable: number; total: bigint } {
  const isOfSet = (address: Address) => rangeOf(set, address) !== undefined && !isKeptBack(set, address)
  return {
    used: taken.filter(isOfSet).length,
    reclaimable: reclaimable.filter(isOfSet).length,
    total: capacityOf(set),
  }
}
