import { type Files, ifPresent, type StorePlace } from "./files.ts"
import { Index } from "./index.ts"
import { formatOwner, type LeaseOwner, listAddresses, parseOwner, readHolder } from "./lease-file.ts"
import { isEnded, isReclaimable } from "./liveness.ts"
import type { Address } from "./ranges.ts"
import { fileNumberOf, fileNumbersIn, type LeaseRecord, ownerKey } from "./records.ts"

/** The content of a store's files, kept small: a large store has many thousands. */
export interface Scan {
  /** Each reservation as text, its address and then its file, by the number of the owner's file in the index. */
  readonly reservations: ReadonlyMap<number, readonly string[]>
  /** Addresses whose files are empty, as a crash in the middle of upstream's ADD or a power cut leaves them. */
  readonly torn: Set<string>
  /** Addresses whose files hold something else than a reservation. */
  readonly foreign: string[]
}

/** The addresses of one owner. */
export interface Holding {
  readonly owner: LeaseOwner
  readonly addresses: string[]
}

/** Called for each address with a file: the address, its text, and the owner in the file. */
type Take = (address: Address, name: string, holder: LeaseOwner | "torn" | "foreign") => void

/** Reads every reservation of a store. Throws `SyscallError` when the directory cannot be read. */
export function scanStore(files: Files, directory: string, take: Take): Scan {
  const reservations = new Map<number, string[]>()
  const scan: Scan = { reservations, torn: new Set(), foreign: [] }
  const buffer = new Uint8Array(4096)
  for (const [name, address] of listAddresses(files, directory)) {
    const holder = readHolder(files, directory, name, buffer)
    if (holder === undefined) continue // removed this moment
    take(address, name, holder)
    if (holder === "torn") scan.torn.add(name)
    else if (holder === "foreign") scan.foreign.push(name)
    else {
      const number = fileNumberOf(holder)
      const known = reservations.get(number)
      const reservation = `${name}\n${formatOwner(holder)}`
      if (known) known.push(reservation)
      else reservations.set(number, [reservation])
    }
  }
  return scan
}

/** The addresses by owner's key, for the owners whose records are in one file of the index. */
export function holdingsOf({ reservations }: Scan, number: number): Map<string, Holding> {
  const holdings = new Map<string, Holding>()
  for (const reservation of reservations.get(number) ?? []) {
    const end = reservation.indexOf("\n")
    const owner = parseOwner(reservation.slice(end + 1))
    if (typeof owner === "object") addHolding(holdings, owner, reservation.slice(0, end))
  }
  return holdings
}

/** Notes that an owner holds an address. */
export function addHolding(holdings: Map<string, Holding>, owner: LeaseOwner, address: string): void {
  const key = ownerKey(owner)
  const known = holdings.get(key)
  if (known) known.addresses.push(address)
  else holdings.set(key, { owner, addresses: [address] })
}

/** A store as a rebuild of its index would find it. */
export interface Survey {
  /** The addresses of all owners, torn files of known owners included. */
  readonly records: readonly LeaseRecord[]
  /** The addresses that an ADD takes back before it is refused. */
  readonly reclaimable: ReadonlySet<string>
}

/**
 * Reads every reservation of a store, without locking it and without changing anything, and returns the state that an
 * ADD would find. STATUS and `cni ipam ls` use it to show reclaimable addresses. `take` is called for each address with
 * a file.
 */
export function surveyStore(store: StorePlace, take: Take = () => {}): Survey {
  const { files, directory } = store
  const names = ifPresent(() => files.readDirectory(`${directory}/.index`)) ?? []
  const index = new Index(files, `${directory}/.index`)
  const scan = scanStore(files, directory, take)
  const restored = new Set<string>()
  const records: LeaseRecord[] = []
  for (const number of new Set([...scan.reservations.keys(), ...fileNumbersIn(names)])) {
    const known = [...index.records.linesIn(names, number).keys()]
    records.push(...renewRecords(store, scan, { number, known, restore: (address) => restored.add(address) }))
  }
  const reclaimable = new Set(scan.torn) // a rebuild removes these
  for (const record of records) {
    if (record.addresses.some((address) => restored.has(address))) continue // so they were written again
    if (isReclaimable(store, record)) for (const address of record.addresses) reclaimable.add(address)
  }
  return { records, reclaimable }
}

/** A file of records in the index, for `renewRecords`. */
export interface RecordsFile {
  readonly number: number
  /** The records that the file has. */
  readonly known: readonly LeaseRecord[]
  /** Called for each torn file of a reservation whose owner a record has. */
  restore(address: string, owner: LeaseOwner): void
}

/**
 * The records of all owners in one file of the index: the `known` record where it fits the files of the reservations,
 * else one of this boot. Torn files with a record count as the record's owner's, unless the power cut has ended that
 * owner. `restore` is called for them, and they are removed from the scan's list.
 */
export function renewRecords(store: StorePlace, scan: Scan, { number, known, restore }: RecordsFile): LeaseRecord[] {
  const holdings = holdingsOf(scan, number)
  const records = new Map<string, LeaseRecord>()
  for (const record of known) {
    records.set(ownerKey(record.owner), record)
    for (const address of record.addresses) {
      if (!scan.torn.has(address) || isEnded(store, record)) continue
      scan.torn.delete(address)
      addHolding(holdings, record.owner, address) // and so it can be released even if it cannot be restored
      restore(address, record.owner)
    }
  }
  return Array.from(holdings).flatMap(([key, { owner, addresses }]) => {
    const record = records.get(key)
    if (record && holdsExactly(record, addresses)) return [record]
    return ifPresent(() => importRecord(store, { owner, addresses }, record)) ?? []
  })
}

function holdsExactly(record: LeaseRecord, addresses: readonly string[]): boolean {
  return record.addresses.length === addresses.length && addresses.every((each) => record.addresses.includes(each))
}

/**
 * The record of reservations that another program made; of those that are left of a known record, what this says. Its boot
 * counts for each file that was not written again since.
 */
function importRecord({ files, directory, bootId }: StorePlace, holding: Holding, known?: LeaseRecord): LeaseRecord {
  const { owner, addresses } = holding
  const written = addresses.map((address) => files.stat(`${directory}/${address}`).modified)
  const isKnown = (address: string, at: number) => known?.written[known.addresses.indexOf(address)] === written[at]
  const rest = addresses.every(isKnown) ? known : undefined
  return { bootId, ...rest, owner, addresses, written }
}
