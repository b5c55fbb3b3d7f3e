import { crc32, decodeUtf8 } from "../../pkg/engine/mod.ts"
import { unlessErrno } from "../../pkg/libc/mod.ts"
import { type Files, writeSmall } from "./files.ts"
import type { LeaseOwner } from "./lease-file.ts"

/** The data about an owner that only the index has, not the reservations' files. */
export interface LeaseRecord {
  readonly owner: LeaseOwner
  /** The addresses as text, in the order of the range sets. */
  readonly addresses: readonly string[]
  /** The boot of the reservation; if another program made the reservation, the boot in which it was first seen. */
  readonly bootId: string
  /** The write times of the addresses' files, in nanoseconds since 1970. A later file has another time. */
  readonly written: readonly bigint[]
  /** The container's network namespace; absent if another program made the reservation. */
  readonly netns?: NamespaceRecord
}

export interface NamespaceRecord {
  readonly path: string
  /** The identity of the namespace: "device:inode". */
  readonly identity: string
}

/** Returns the key of an owner's lines: "CONTAINER@INTERFACE". */
export function ownerKey({ containerId, ifName }: LeaseOwner): string {
  return `${containerId}@${ifName}`
}

/**
 * Formats a record as one line: a checksum, then owner, addresses, boot ID, times, and the namespace with its path,
 * separated by blanks. The checksum reveals an incomplete line.
 */
export function formatRecord({ owner, addresses, bootId, written, netns }: LeaseRecord): string {
  const fields = [ownerKey(owner), addresses.join(","), bootId, written.join(",")]
  if (netns && !netns.path.includes("\n")) fields.push(netns.identity, netns.path)
  const text = fields.join(" ")
  return `${checksum(text)} ${text}`
}

/** Parses a line. Returns `undefined` if it is not a complete record. */
export function parseRecord(line: string): LeaseRecord | undefined {
  const [sum = "", key = "", addresses, bootId, written, identity, ...path] = line.split(" ")
  if (written === undefined || !/^\d+(,\d+)*$/.test(written)) return undefined
  if (sum !== checksum(line.slice(sum.length + 1))) return undefined
  const at = key.indexOf("@")
  return {
    owner: { containerId: key.slice(0, at), ifName: key.slice(at + 1) },
    addresses: addresses?.split(",") ?? [],
    bootId: bootId ?? "",
    written: written.split(",").map(BigInt),
    ...(identity !== undefined && { netns: { identity, path: path.join(" ") } }),
  }
}

const CHECKSUM_DIGITS = 8

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(CHECKSUM_DIGITS, "0")
}

const fileCount = 256

/**
 * The records of all owners, as lines of text in 256 files, "owners-00" to "owners-ff". A file is read when needed and
 * rewritten in place, so a search for an owner reads only one.
 */
export class Owners {
  readonly #files: Files
  readonly #directory: string
  readonly #lines = new Map<string, string[]>()

  constructor(files: Files, directory: string) {
    this.#files = files
    this.#directory = directory
  }

  get(owner: LeaseOwner): LeaseRecord | undefined {
    const key = ownerKey(owner)
    for (const line of this.#read(fileName(fileNumberOf(owner)))) if (isAbout(line, key)) return parseRecord(line)
    return undefined
  }

  /** Writes the record of an owner, or removes it if `record` is undefined. Throws `SyscallError`. */
  set(owner: LeaseOwner, record: LeaseRecord | undefined): void {
    const key = ownerKey(owner)
    const name = fileName(fileNumberOf(owner))
    const lines: string[] = []
    for (const line of this.#read(name)) if (!isAbout(line, key)) lines.push(line)
    if (record) lines.push(formatRecord(record))
    this.#write(name, lines)
  }

  /** Returns the records of one file, each with its line. `names` are all files in the directory. */
  linesIn(names: ReadonlySet<string>, number: number): Map<LeaseRecord, string> {
    const lines = new Map<LeaseRecord, string>()
    const name = fileName(number)
    for (const line of names.has(name) ? this.#read(name) : []) {
      const record = parseRecord(line)
      if (record) lines.set(record, line)
    }
    return lines
  }

  /**
   * Replaces the records file by file, so that all of them are never parsed at the same time. `renew` gets the records
   * and the number of a file, and returns the file's new records. `names` are all files in the directory. `numbers` are
   * the files that will have records.
   */
  replaceAll(
    names: ReadonlySet<string>,
    numbers: Iterable<number>,
    { renew, attempt }: { renew: Renew; attempt: (write: () => void) => void },
  ): void {
    for (const number of new Set([...fileNumbersIn(names), ...numbers])) {
      const name = fileName(number)
      const known = this.linesIn(names, number)
      const former = this.#lines.get(name) ?? []
      const lines = renew([...known.keys()], number).map((record) => known.get(record) ?? formatRecord(record))
      this.#lines.set(name, lines)
      if (lines.toSorted().join() !== former.toSorted().join()) attempt(() => this.#write(name, lines))
    }
  }

  /** Returns the owners with a record in the files read so far. After `replaceAll` these are all owners. */
  list(): LeaseOwner[] {
    return [...this.#lines.values()].flat().flatMap((line) => parseRecord(line)?.owner ?? [])
  }

  #read(name: string): string[] {
    const known = this.#lines.get(name)
    if (known) return known
    // A path that is not a file contains no records. The index then uses the reservations' files.
    const bytes = unlessErrno(() => this.#files.findFile(`${this.#directory}/${name}`), "EINVAL", "EISDIR", "ENXIO")
    const lines = decodeUtf8(bytes ?? new Uint8Array())
      .split("\n")
      .slice(0, -1)
    this.#lines.set(name, lines)
    return lines
  }

  #write(name: string, lines: string[]): void {
    this.#lines.set(name, lines)
    writeSmall(this.#files, `${this.#directory}/${name}`, lines.length === 0 ? "" : `${lines.join("\n")}\n`)
  }
}

/** Returns the new records of an index file, from its current records and its number. */
export type Renew = (known: LeaseRecord[], number: number) => LeaseRecord[]

/** Reports whether a line is the record of an owner: "CHECKSUM KEY …". */
function isAbout(line: string, key: string): boolean {
  return line.startsWith(`${key} `, CHECKSUM_DIGITS + 1)
}

/** Returns the number of the file for an owner. All interfaces of a container share a file. */
export function fileNumberOf({ containerId }: LeaseOwner): number {
  return crc32(containerId) % fileCount
}

/** Returns the numbers of the files of records among the file names in an index. */
export function fileNumbersIn(names: Iterable<string>): number[] {
  const numbers: number[] = []
  for (const name of names) {
    const number = Number.parseInt(name.slice(-2), 16)
    if (name === fileName(number)) numbers.push(number)
  }
  return numbers
}

function fileName(number: number): string {
  return `owners-${number.toString(16).padStart(2, "0")}`
}
