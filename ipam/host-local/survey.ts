import { type Files, ifPresent } from "./files.ts"
import { Index } from "./index.ts"
import { livenessOf } from "./liveness.ts"
import type { Owner } from "./owner.ts"
import { type LeaseRecord, ownerKey } from "./record.ts"
import { addHolding, type Scan, scanStore } from "./scan.ts"

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
  const known = new Index(files, `${directory}/.index`).records(names)
  const scan = scanStore(files, directory)
  const recorded = ownersByAddress(known)
  const reclaimable = new Set<string>()
  for (const address of scan.torn) {
    const owner = recorded.get(address)
    if (owner) addHolding(scan, owner, address)
    else reclaimable.add(address) // a rebuild removes it
  }
  const records = recordsOf(store, scan, known)
  for (const record of records) {
    if (record.addresses.some((address) => scan.torn.includes(address))) continue // restored, so it was written again
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

/** What is known of everyone who holds something: the index's record where it fits the files, else one of this boot. */
export function recordsOf(store: Surveyed, scan: Scan, known: ReadonlyMap<string, LeaseRecord>): LeaseRecord[] {
  return Array.from(scan.holdings.values()).flatMap(({ owner, addresses }) => {
    const record = known.get(ownerKey(owner))
    if (record && holdsExactly(record, addresses)) return [record]
    return ifPresent(() => importRecord(store, owner, addresses)) ?? []
  })
}

/** Whom the records name for each address. */
export function ownersByAddress(known: ReadonlyMap<string, LeaseRecord>): Map<string, Owner> {
  const owners = new Map<string, Owner>()
  for (const { owner, addresses } of known.values()) for (const address of addresses) owners.set(address, owner)
  return owners
}

function holdsExactly(record: LeaseRecord, addresses: readonly string[]): boolean {
  return record.addresses.length === addresses.length && addresses.every((each) => record.addresses.includes(each))
}

/** The record of a reservation that another program made. */
function importRecord({ files, directory, bootId }: Surveyed, owner: Owner, addresses: string[]): LeaseRecord {
  const written = addresses.map((address) => files.stat(`${directory}/${address}`).modified)
  return { owner, addresses, bootId, written }
}
