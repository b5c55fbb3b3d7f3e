import { isErrno, SyscallError } from "../../pkg/libc/mod.ts"
import { type Files, ifPresent, readSmall, type StorePlace, writeSmall } from "./files.ts"
import { Index } from "./index.ts"
import { describeOwner, formatOwner, type LeaseOwner } from "./lease-file.ts"
import { parseAddress } from "./ranges.ts"
import { renewRecords, scanStore } from "./survey.ts"

/** The age after which no process uses a draft any more. */
const abandonedNs = 600_000_000_000n

/**
 * Rebuilds the index from the files of the reservations, and repairs torn files. A rebuild is necessary once per boot,
 * and after another program has created or removed a reservation. The store must be locked.
 */
export function rebuildIndex(store: StorePlace): Index {
  const { files, directory, log } = store
  const at = `${directory}/.index`
  const index = new Index(files, at)
  index.attempt(() => breakSeal(files, directory))
  index.attempt(() => removeAbandoned(files, `${at}/new`))
  const names = readNames(store, index)
  index.clear()
  const scan = scanStore(files, directory, (address) => index.note(address, true))
  for (const address of scan.foreign) {
    log(`"${directory}/${address}" is not a reservation: the file is kept, and its address stays reserved`)
  }
  index.replaceRecords(names, scan.reservations.keys(), (known, number) =>
    renewRecords(store, scan, { number, known, restore: (address, owner) => repair(store, index, address, owner) }),
  )
  for (const address of scan.torn) repair(store, index, address)
  index.writePages(names)
  return index
}

/** Returns the file names in the index, or none if it cannot be read. */
function readNames({ files, directory }: StorePlace, index: Index): string[] {
  let names: string[] = []
  index.attempt(() => {
    names = files.readDirectory(`${directory}/.index`)
  })
  return names
}

/** Removes the drafts of processes that were killed during an ADD. */
function removeAbandoned(files: Files, directory: string): void {
  const before = BigInt(Date.now()) * 1_000_000n - abandonedNs
  for (const name of ifPresent(() => files.readDirectory(directory)) ?? []) {
    ifPresent(() => {
      if (files.stat(`${directory}/${name}`, true).changed < before) files.unlink(`${directory}/${name}`)
    })
  }
}

/**
 * Repairs the torn file of `address`. If a record has its `owner`, restores the file. If none has, removes the file,
 * because its ADD was never answered, or its container ended with the power cut. Logs failures; the next call then
 * tries again.
 */
function repair({ files, directory, log }: StorePlace, index: Index, address: string, owner?: LeaseOwner): void {
  const path = `${directory}/${address}`
  try {
    if (owner) files.writeExisting(path, formatOwner(owner))
    else files.unlink(path)
    const removed = owner ? undefined : parseAddress(address)
    if (removed) index.note(removed, false)
    log(`repaired the empty reservation "${path}": ${owner ? `it belongs to ${describeOwner(owner)}` : "removed"}`)
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error
    log(`Cannot repair the empty reservation "${path}": ${error.message}`)
    index.distrust()
  }
}

/**
 * The modification time that marks a store's directory and its index as complete: the first second of 1990, which no
 * clock shows. If another program, such as the Go plugin or `rm`, adds or removes a file, the kernel sets the current
 * time.
 */
const sealed = 631_152_000_000_000_000n

/**
 * Reports whether nothing in the store or the index has changed since `seal`. The seal contains the change time, which
 * differs in a directory restored from a backup, and the boot ID, which differs after a power cut.
 */
export function isSealed(place: StorePlace): boolean {
  const expected = ifPresent(() => sealText(place))
  return expected !== undefined && expected === ifPresent(() => readSmall(place.files, sealPath(place.directory)))
}

/** Marks the index as complete. If this throws `SyscallError`, the store is not sealed. */
export function seal(place: StorePlace): void {
  const { files, directory } = place
  files.setModified(`${directory}/.index`, sealed)
  files.setModified(directory, sealed)
  const text = sealText(place)
  if (text !== undefined) writeSmall(files, sealPath(directory), text)
}

/** Marks the index as unreliable. Creates its directory if necessary. Throws `SyscallError`. */
export function breakSeal(files: Files, directory: string): void {
  try {
    writeSmall(files, sealPath(directory), "broken\n")
  } catch (error) {
    if (!isErrno(error, "ENOENT")) throw error
    files.makeDirectories(`${directory}/.index`, 0o700)
    writeSmall(files, sealPath(directory), "broken\n")
  }
}

/** Returns the text of a valid seal, or `undefined` if one of the directories was modified. */
function sealText({ files, directory, bootId }: StorePlace): string | undefined {
  const store = files.stat(directory)
  const index = files.stat(`${directory}/.index`)
  if (store.modified !== sealed || index.modified !== sealed) return undefined
  return `1 ${bootId} ${store.device} ${store.inode} ${store.changed} ${index.changed}\n`
}

function sealPath(directory: string): string {
  return `${directory}/.index/seal`
}
