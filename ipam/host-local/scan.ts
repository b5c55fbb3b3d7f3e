import { isErrno } from "../../pkg/libc/mod.ts"
import { type Address, formatAddress, parseAddress } from "./address.ts"
import { type Files, ifPresent, readSmall } from "./files.ts"
import { formatOwner, type Owner, parseOwner } from "./owner.ts"
import { fileCount, fileNumberOf } from "./owners.ts"
import { ownerKey } from "./record.ts"

/** What the files of a store say; a large one has many thousands, so it is kept small. */
export interface Scan {
  /** Each reservation as text, its address and then its file, by the number of the owner's file in the index. */
  readonly reservations: readonly string[][]
  /** Addresses whose files are empty, as a crash in the middle of upstream's ADD or a power cut leaves them. */
  readonly torn: Set<string>
  /** Addresses whose files hold something else than a reservation. */
  readonly foreign: string[]
}

/** What one owner holds. */
export interface Holding {
  readonly owner: Owner
  readonly addresses: string[]
}

/**
 * Reads every reservation of a store; `take` is told of each address that has a file. Throws `SyscallError` when the
 * directory cannot be read.
 */
export function scanStore(files: Files, directory: string, take: (address: Address) => void): Scan {
  const scan: Scan = { reservations: Array.from({ length: fileCount }, () => []), torn: new Set(), foreign: [] }
  const buffer = new Uint8Array(4096)
  for (const [name, address] of listAddresses(files, directory)) {
    const holder = readHolder(files, directory, name, buffer)
    if (holder === undefined) continue // removed this moment
    take(address)
    if (holder === "torn") scan.torn.add(name)
    else if (holder === "foreign") scan.foreign.push(name)
    else scan.reservations[fileNumberOf(holder)]?.push(`${name}\n${formatOwner(holder)}`)
  }
  return scan
}

/** Who holds what, by the owner's key, of those whose records are in one file of the index. */
export function holdingsOf({ reservations }: Scan, number: number): Map<string, Holding> {
  const holdings = new Map<string, Holding>()
  for (const reservation of reservations[number] ?? []) {
    const end = reservation.indexOf("\n")
    const owner = parseOwner(reservation.slice(end + 1))
    if (typeof owner === "object") addHolding(holdings, owner, reservation.slice(0, end))
  }
  return holdings
}

/** Notes that an owner holds an address. */
export function addHolding(holdings: Map<string, Holding>, owner: Owner, address: string): void {
  const key = ownerKey(owner)
  const known = holdings.get(key)
  if (known) known.addresses.push(address)
  else holdings.set(key, { owner, addresses: [address] })
}

/** The addresses that have a file, by their text. Other names than the canonical one are not reservations. */
export function* listAddresses(files: Files, directory: string): Iterable<[string, Address]> {
  for (const name of files.readDirectory(directory)) {
    const address = parseAddress(name)
    if (address && formatAddress(address) === name) yield [name, address]
  }
}

/** Whom the file of an address names; `undefined` when there is none. */
export function readHolder(
  files: Files,
  directory: string,
  address: string,
  buffer?: Uint8Array<ArrayBuffer>,
): Owner | "torn" | "foreign" | undefined {
  try {
    const text = ifPresent(() => readSmall(files, `${directory}/${address}`, buffer))
    return text === undefined ? undefined : parseOwner(text)
  } catch (error) {
    if (isErrno(error, "EISDIR", "ELOOP", "EACCES", "ENXIO")) return "foreign"
    throw error
  }
}
