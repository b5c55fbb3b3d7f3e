import { type Files, ifPresent, type StorePlace } from "./files.ts"
import { Index } from "./index.ts"
import { formatOwner, type LeaseOwner, listAddresses, parseOwner, readHolder } from "./lease-file.ts"
import { isEnded, isReclaimable } from "./liveness.ts"
import type { Address } from "./ranges.ts"
import { fileNumberOf, fileNumbersIn, type LeaseRecord, ownerKey } from "./records.ts"

/** The content of a store's files in a compact form, because a large store has many thousands of files. */
export interface Scan {
  /** The reservations, addresses and texts of files alternately, by the number of the owner's index file. */
  readonly reservations: ReadonlyMap<number, readonly string[]>
  /** The addresses with empty files, which a power cut or a crash during upstream's ADD leaves. */
  readonly torn: Set<string>
  /** The addresses with files that contain no reservation. */
  readonly foreign: string[]
}

export interface Holding {
  readonly owner: LeaseOwner
  readonly addresses: string[]
}

/** Called for each address with a file, with the address's text and the owner in the file. */
type Take = (address: Address, name: string, holder: LeaseOwner | "torn" | "foreign") => void

/** Reads every reservation of a store. Throws `SyscallError` if the directory cannot be read. */
export function scanStore(files: Files, directory: string, take: Take): Scan {
  const reservations = new Map<number, string[]>()
  const scan: Scan = { reservations, torn: new Set(), foreign: [] }
  const buffer = new Uint8Array(4096)
  for (const [name, address] of listAddresses(files, directory)) {
    const holder = readHolder(files, directory, name, buffer)
    if (holder === undefined) continue // removed in the meantime
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

/** Returns the addresses of the owners in one index file, by owner key. */
export function holdingsOf({ reservations }: Scan, number: number): Map<string, Holding> {
  const holdings = new Map<string, Holding>()
  for (const reservation of reservations.get(number) ?? []) {
    const end = reservation.indexOf("\n")
    const owner = parseOwner(reservation.slice(end + 1))
    if (typeof owner === "object") addHolding(holdings, owner, reservation.slice(0, end))
  }
  return holdings
}

export function addHolding(holdings: Map<string, Holding>, owner: LeaseOwner, address: string): void {
  const key = ownerKey(owner)
  const known = holdings.get(key)
  if (known) known.addresses.push(address)
  else holdings.set(key, { owner, addresses: [address] })
}

/** The state of a store, as a rebuild of its index would find it. */
export interface Survey {
  /** The addresses of all owners, including those in torn files whose owner a record names. */
  readonly records: readonly LeaseRecord[]
  /** The addresses that an ADD would release before it fails for lack of addresses. */
  readonly reclaimable: ReadonlySet<string>
}

/**
 * Reads every reservation of a store, without a lock and without changes. Returns the state that an ADD would find, of
 * which STATUS and `cni ipam ls` show the reclaimable addresses. Calls `take` for each address with a file.
 */
export function surveyStore(store: StorePlace, take: Take = () => {}): Survey {
  const { files, directory } = store
  const names = new Set(ifPresent(() => files.readDirectory(`${directory}/.index`)))
  const index = new Index(files, `${directory}/.index`)
  const scan = scanStore(files, directory, take)
  const restored = new Set<string>()
  const records: LeaseRecord[] = []
  for (const number of new Set([...scan.reservations.keys(), ...fileNumbersIn(names)])) {
    const known = [...index.records.linesIn(names, number).keys()]
    records.push(...renewRecords(store, scan, { number, known, restore: (address) => restored.add(address) }))
  }
  const reclaimable = new Set(scan.torn) // a rebuild removes them
  for (const record of records) {
    if (record.addresses.some((address) => restored.has(address))) continue // restored files count as new
    if (isReclaimable(store, record)) for (const address of record.addresses) reclaimable.add(address)
  }
  return { records, reclaimable }
}

export interface RecordsFile {
  readonly number: number
  readonly known: readonly LeaseRecord[]
  /** Called for each torn reservation file whose owner is in a record. */
  restore(address: string, owner: LeaseOwner): void
}

/**
 * Returns the records of the owners in one index file: the `known` record if it matches the reservations' files, or
 * else a new record of this boot. A torn file is attributed to the owner that a record names, unless a power cut has
 * ended that owner. Calls `restore` for such a file, and removes it from `scan.torn`.
 */
export function renewRecords(store: StorePlace, scan: Scan, { number, known, restore }: RecordsFile): LeaseRecord[] {
  const holdings = holdingsOf(scan, number)
  const records = new Map<string, LeaseRecord>()
  for (const record of known) {
    records.set(ownerKey(record.owner), record)
    for (const address of record.addresses) {
      if (!scan.torn.has(address) || isEnded(store, record)) continue
      scan.torn.delete(address)
      addHolding(holdings, record.owner, address) // so that it can be released even if it cannot be restored
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

/** Returns a record for another program's changes, with the known record's boot if no remaining file was changed. */
function importRecord({ files, directory, bootId }: StorePlace, holding: Holding, known?: LeaseRecord): LeaseRecord {
  const { owner, addresses } = holding
  const written = addresses.map((address) => files.stat(`${directory}/${address}`).modified)
  const isKnown = (address: string, at: number) => known?.written[known.addresses.indexOf(address)] === written[at]
  const rest = addresses.every(isKnown) ? known : undefined
  return { bootId, ...rest, owner, addresses, written }
}
