import { type Files, ifPresent } from "./files.ts"
import { Index } from "./index.ts"
import { livenessOf } from "./liveness.ts"
import type { Owner } from "./owner.ts"
import { fileCount } from "./owners.ts"
import { type LeaseRecord, ownerKey } from "./record.ts"
import { addHolding, holdingsOf, type Scan, scanStore } from "./scan.ts"

/** What a survey works on. */
export interface Surveyed {
  readonly files: Files
  readonly directory: string
  readonly bootId: string
}

/** A store as a rebuild of its index would find it. */
export interface Survey {
  /** Of everyone who holds something, torn files of known owners included. */
  readonly records: readonly LeaseRecord[]
  /** The addresses that an ADD takes back before it is refused. */
  readonly reclaimable: ReadonlySet<string>
}

/**
 * Reads every reservation of a store, without locking it and without changing anything, and answers what an ADD would
 * find: STATUS and `cni ipam ls` say by this what could be reclaimed.
 */
export function surveyStore(store: Surveyed): Survey {
  const { files, directory } = store
  const names = ifPresent(() => files.readDirectory(`${directory}/.index`)) ?? []
  const index = new Index(files, `${directory}/.index`)
  const scan = scanStore(files, directory, () => {})
  const restored = new Set<string>()
  const records: LeaseRecord[] = []
  for (let number = 0; number < fileCount; number++) {
    const known = index.recordsIn(names, number)
    records.push(...renewRecords(store, scan, number, known, (address) => restored.add(address)))
  }
  const reclaimable = new Set(scan.torn) // a rebuild removes these
  for (const record of records) {
    if (record.addresses.some((address) => restored.has(address))) continue // so they were written again
    if (isReclaimable(store, record)) for (const address of record.addresses) reclaimable.add(address)
  }
  return { records, reclaimable }
}

/**
 * Whether the addresses of an owner may be given to others: it is known to be dead. Reservations in the old form, for a
 * whole container, are left to GC.
 */
export function isReclaimable({ files, directory, bootId }: Surveyed, record: LeaseRecord): boolean {
  return record.owner.ifName !== "" && livenessOf(files, directory, record, bootId) === "dead"
}

/**
 * What is known of everyone whose records are in one file of the index: the `known` record where it fits the files of the
 * reservations, else one of this boot. Torn files of which a record says whose they are count as that owner's; `restore` is
 * told of them, and they are taken off the scan's list.
 */
export function renewRecords(
  store: Surveyed,
  scan: Scan,
  number: number,
  known: readonly LeaseRecord[],
  restore: (address: string, owner: Owner) => void,
): LeaseRecord[] {
  const holdings = holdingsOf(scan, number)
  const records = new Map<string, LeaseRecord>()
  for (const record of known) {
    records.set(ownerKey(record.owner), record)
    for (const address of record.addresses) {
      if (!scan.torn.delete(address)) continue
      addHolding(holdings, record.owner, address) // and so it can be released even if it cannot be restored
      restore(address, record.owner)
    }
  }
  return Array.from(holdings).flatMap(([key, { owner, addresses }]) => {
    const record = records.get(key)
    if (record && holdsExactly(record, addresses)) return [record]
    return ifPresent(() => importRecord(store, owner, addresses)) ?? []
  })
}

function holdsExactly(record: LeaseRecord, addresses: readonly string[]): boolean {
  return record.addresses.length === addresses.length && addresses.every((each) => record.addresses.includes(each))
}

/** The record of a reservation that another program made. */
function importRecord({ files, directory, bootId }: Surveyed, owner: Owner, addresses: string[]): LeaseRecord {
  const written = addresses.map((address) => files.stat(`${directory}/${address}`).modified)
  return { owner, addresses, bootId, written }
}
