import { isErrno } from "../../pkg/libc/mod.ts"
import { type Address, formatAddress, parseAddress } from "./address.ts"
import { type Files, ifPresent, readSmall } from "./files.ts"
import { type Owner, parseOwner } from "./owner.ts"
import { ownerKey } from "./record.ts"

/** What one owner holds. */
export interface Holding {
  readonly owner: Owner
  readonly addresses: string[]
}

/** Everything that the files of a store say. */
export interface Scan {
  /** Every address that has a file. */
  readonly taken: Map<string, Address>
  /** By the owner's key. */
  readonly holdings: Map<string, Holding>
  /** Addresses whose files are empty, as a crash in the middle of upstream's ADD or a power cut leaves them. */
  readonly torn: string[]
  /** Addresses whose files hold something else than a reservation. */
  readonly foreign: string[]
}

/** Reads every reservation of a store. Throws `SyscallError` when the directory cannot be read. */
export function scanStore(files: Files, directory: string): Scan {
  const scan: Scan = { taken: new Map(), holdings: new Map(), torn: [], foreign: [] }
  const buffer = new Uint8Array(4096)
  for (const [name, address] of listAddresses(files, directory)) {
    const holder = readHolder(files, directory, name, buffer)
    if (holder === undefined) continue // removed this moment
    scan.taken.set(name, address)
    if (holder === "torn") scan.torn.push(name)
    else if (holder === "foreign") scan.foreign.push(name)
    else addHolding(scan, holder, name)
  }
  return scan
}

/** Notes that an owner holds an address. */
export function addHolding({ holdings }: Pick<Scan, "holdings">, owner: Owner, address: string): void {
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
