import { SyscallError } from "../../pkg/libc/mod.ts"
import { type Files, ifPresent } from "./files.ts"
import { Index } from "./index.ts"
import { describeOwner, formatOwner, type Owner } from "./owner.ts"
import type { LeaseRecord } from "./record.ts"
import { addHolding, type Scan, scanStore } from "./scan.ts"
import { breakSeal } from "./seal.ts"
import { ownersByAddress, recordsOf } from "./survey.ts"

/** A store to rebuild the index of. */
export interface Rebuilding {
  readonly files: Files
  readonly directory: string
  readonly bootId: string
  log(line: string): void
}

/** How old a file that never became a reservation is when nobody can be at work on it any more. */
const abandonedNs = 600_000_000_000n

/**
 * Makes the index from the files of the reservations, read one by one, and repairs what is torn: needed once for each
 * boot, and whenever somebody else has made or removed a reservation. Answers the index and everyone who holds
 * something. The store must be locked.
 */
export function rebuildIndex(store: Rebuilding): { index: Index; owners: Owner[] } {
  const { files, directory, log } = store
  const at = `${directory}/.index`
  const index = new Index(files, at)
  index.attempt(() => breakSeal(files, directory))
  index.attempt(() => removeAbandoned(files, `${at}/new`))
  const names = readNames(store, index)
  const known = index.records(names)
  const scan = scanStore(files, directory)
  if (!repair(store, scan, known)) index.distrust()
  for (const address of scan.foreign) {
    log(`"${directory}/${address}" is no reservation: left alone, so its address stays taken`)
  }
  const records = recordsOf(store, scan, known)
  index.replace(records, scan.taken.values(), names)
  return { index, owners: records.map(({ owner }) => owner) }
}

/** The names in the index; none when there is no index that can be read. */
function readNames({ files, directory }: Rebuilding, index: Index): string[] {
  let names: string[] = []
  index.attempt(() => {
    names = files.readDirectory(`${directory}/.index`)
  })
  return names
}

/** Removes what processes that were killed in the middle of an ADD have left. */
function removeAbandoned(files: Files, directory: string): void {
  const before = BigInt(Date.now()) * 1_000_000n - abandonedNs
  for (const name of ifPresent(() => files.readDirectory(directory)) ?? []) {
    ifPresent(() => {
      if (files.stat(`${directory}/${name}`, true).changed < before) files.unlink(`${directory}/${name}`)
    })
  }
}

/**
 * Torn files: restored where a record says whose they are. The others are removed: whoever made them never got an answer,
 * or lost its containers with the power. Answers whether all is well now; what could not be done is said on stderr.
 */
function repair({ files, directory, log }: Rebuilding, scan: Scan, known: ReadonlyMap<string, LeaseRecord>): boolean {
  if (scan.torn.length === 0) return true
  const recorded = ownersByAddress(known)
  let isWell = true
  for (const address of scan.torn) {
    const path = `${directory}/${address}`
    const owner = recorded.get(address)
    if (owner) addHolding(scan, owner, address) // and so it can be released even if it cannot be restored
    try {
      if (owner) files.writeExisting(path, formatOwner(owner))
      else files.unlink(path)
      if (!owner) scan.taken.delete(address)
      log(`repaired the empty reservation "${path}": ${owner ? `it is that of ${describeOwner(owner)}` : "removed"}`)
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error
      log(`Cannot repair the empty reservation "${path}": ${error.message}`)
      isWell = false
    }
  }
  return isWell
}
