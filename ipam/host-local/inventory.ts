import { isErrno } from "../../pkg/libc/mod.ts"
import { type Files, ifPresent, kernelFiles } from "./files.ts"
import { type Liveness, livenessOf, namespaceExists } from "./liveness.ts"
import type { Owner } from "./owner.ts"
import { listAddresses, readHolder } from "./scan.ts"
import type { Store } from "./store.ts"
import { surveyStore } from "./survey.ts"

/** One taken address, for people and tools. */
export interface Lease {
  readonly address: string
  /** Whom it is reserved for; "torn" for an empty file, "foreign" for a file that is no reservation. */
  readonly holder: Owner | "torn" | "foreign"
  /** When the file was written, in milliseconds since 1970. */
  readonly writtenMs: number
  /** Path of the container's network namespace, and whether it is still there; absent when nobody noted it. */
  readonly netns?: { path: string; exists: boolean }
  /** Absent for files that are no reservations. */
  readonly liveness?: Liveness
  /** Whether an ADD takes it back before it is refused. */
  readonly reclaimable: boolean
}

/** The networks that have reservations under a `dataDir`: every directory with a lock in it. */
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

/** Every taken address of a network. Reads without locking and changes nothing. */
export function listLeases(store: Store): Lease[] {
  const { files, directory, bootId } = store
  const found = ifPresent(() => ({ ...surveyStore(store), taken: [...listAddresses(files, directory)] }))
  if (!found) return [] // no store
  const records = new Map(found.records.flatMap((record) => record.addresses.map((address) => [address, record])))
  return found.taken.flatMap(([address]) => {
    const holder = readHolder(files, directory, address)
    const written = ifPresent(() => files.stat(`${directory}/${address}`).modified)
    if (holder === undefined || written === undefined) return []
    const reclaimable = found.reclaimable.has(address)
    const lease = { address, holder, writtenMs: Number(written / 1_000_000n), reclaimable }
    const record = typeof holder === "object" ? records.get(address) : undefined
    if (!record) return [lease]
    const netns = record.netns && { path: record.netns.path, exists: namespaceExists(files, record.netns) }
    return [{ ...lease, ...(netns && { netns }), liveness: livenessOf(files, directory, record, bootId) }]
  })
}
