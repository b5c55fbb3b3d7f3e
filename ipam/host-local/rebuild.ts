import { SyscallError } from "../../pkg/libc/mod.ts"
import { type Files, ifPresent, writeSmall } from "./files.ts"
import { Index } from "./index.ts"
import { formatOwner, type Owner } from "./owner.ts"
import { type LeaseRecord, ownerOf } from "./record.ts"
import { addHolding, type Scan, scanStore } from "./scan.ts"

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
 * boot, and whenever somebody else has made or removed a reservation. Answers the index and everyone who
 * holds something. The store must be locked.
 */
export function rebuildIndex(store: Rebuilding): { index: Index; owners: Owner[] } {
  const { files, directory } = store
  const at = `${directory}/.index`
  const scan = scanStore(files, directory)
  const index = new Index(files, at, false)
  const names = listIndex(store, index)
  if (scan.torn.length > 0) repair(store, scan, index, names)
  for (const address of scan.foreign) {
    store.log(`"${directory}/${address}" is no reservation: left alone, so its address stays taken`)
  }
  const pages = index.setAll(scan.taken.values())
  const links = new Set(names.filter((name) => name.includes("@")))
  for (const [name, { owner, addresses }] of scan.holdings) {
    const known = links.has(name) ? index.read(name) : undefined
    if (known && holdsExactly(known, addresses)) index.put(owner, known, true)
    else {
      const record = ifPresent(() => importRecord(store, addresses))
      if (record) index.put(owner, record)
    }
  }
  for (const name of names) {
    const isStale = name.startsWith("used-") ? !pages.has(name) : name.includes("@") && !scan.holdings.has(name)
    if (isStale) index.remove(name)
  }
  return { index, owners: Array.from(scan.holdings.values(), ({ owner }) => owner) }
}

/** The names in the index, whose directory is made if need be. */
function listIndex({ files, directory }: Rebuilding, index: Index): string[] {
  const at = `${directory}/.index`
  let names: string[] = []
  index.attempt(() => {
    names = ifPresent(() => files.readDirectory(at)) ?? []
    if (names.length === 0) files.makeDirectories(at, 0o700)
    if (!names.includes("seal")) writeSmall(files, `${at}/seal`, "broken\n")
  })
  index.attempt(() => removeAbandoned(files, `${at}/new`))
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
 * Torn files: restored where our record says whose they are. The others are removed: whoever made them never got an
 * answer, or lost its containers with the power.
 */
function repair(store: Rebuilding, scan: Scan, index: Index, names: readonly string[]): void {
  const { files, directory, log } = store
  const recorded = new Map<string, Owner>()
  for (const name of names) {
    const owner = ownerOf(name)
    if (owner) for (const address of index.read(name)?.addresses ?? []) recorded.set(address, owner)
  }
  for (const address of scan.torn) {
    const path = `${directory}/${address}`
    const owner = recorded.get(address)
    try {
      if (owner) files.writeExisting(path, formatOwner(owner))
      else files.unlink(path)
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error
      log(`Cannot repair the empty reservation "${path}": ${error.message}`)
      continue
    }
    log(
      `repaired the empty reservation "${path}": ${owner ? `it is ${formatOwner(owner)}'s`.replace("\r\n", " ") : "removed"}`,
    )
    if (owner) addHolding(scan, owner, address)
    else scan.taken.delete(address)
  }
}

function holdsExactly(record: LeaseRecord, addresses: readonly string[]): boolean {
  return record.addresses.length === addresses.length && addresses.every((each) => record.addresses.includes(each))
}

/** The record of a reservation that another program made. */
function importRecord({ files, directory, bootId }: Rebuilding, addresses: readonly string[]): LeaseRecord {
  return { addresses, bootId, written: addresses.map((address) => files.stat(`${directory}/${address}`).modified) }
}
