import { SyscallError } from "../../pkg/libc/mod.ts"
import { parseAddress } from "./address.ts"
import { type Files, ifPresent } from "./files.ts"
import { Index } from "./index.ts"
import { describeOwner, formatOwner, type Owner } from "./owner.ts"
import { scanStore } from "./scan.ts"
import { breakSeal } from "./seal.ts"
import { renewRecords } from "./survey.ts"

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
 * boot, and whenever somebody else has made or removed a reservation. The store must be locked.
 */
export function rebuildIndex(store: Rebuilding): Index {
  const { files, directory, log } = store
  const at = `${directory}/.index`
  const index = new Index(files, at)
  index.attempt(() => breakSeal(files, directory))
  index.attempt(() => removeAbandoned(files, `${at}/new`))
  const names = readNames(store, index)
  index.clear()
  const scan = scanStore(files, directory, (address) => index.note(address, true))
  for (const address of scan.foreign) {
    log(`"${directory}/${address}" is no reservation: left alone, so its address stays taken`)
  }
  index.replaceRecords(names, (known, number) =>
    renewRecords(store, scan, number, known, (address, owner) => repair(store, index, address, owner)),
  )
  for (const address of scan.torn) repair(store, index, address)
  index.writePages(names)
  return index
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
 * A torn file: restored where a record says whose it is. Any other is removed: whoever made it never got an answer, or lost
 * its container with the power. What could not be done is said on stderr, and tried again by the next call.
 */
function repair({ files, directory, log }: Rebuilding, index: Index, address: string, owner?: Owner): void {
  const path = `${directory}/${address}`
  try {
    if (owner) files.writeExisting(path, formatOwner(owner))
    else files.unlink(path)
    const removed = owner ? undefined : parseAddress(address)
    if (removed) index.note(removed, false)
    log(`repaired the empty reservation "${path}": ${owner ? `it is that of ${describeOwner(owner)}` : "removed"}`)
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error
    log(`Cannot repair the empty reservation "${path}": ${error.message}`)
    index.distrust()
  }
}
