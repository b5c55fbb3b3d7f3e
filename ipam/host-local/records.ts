import { crc32, decodeUtf8 } from "../../pkg/engine/mod.ts"
import { unlessErrno } from "../../pkg/libc/mod.ts"
import { type Files, writeSmall } from "./files.ts"
import type { LeaseOwner } from "./lease-file.ts"

/** Facts of an owner in the index that the reservations' files do not have. */
export interface LeaseRecord {
  readonly owner: LeaseOwner
  /** As text, in the order of the range sets. */
  readonly addresses: readonly string[]
  /** The boot in which the reservation was made, or was first seen when another program made it. */
  readonly bootId: string
  /** When the file of each address was written, in nanoseconds since 1970: distinguishes the files from later ones. */
  readonly written: readonly bigint[]
  /** The container's network namespace; absent when another program made the reservation. */
  readonly netns?: NamespaceRecord
}

/** A namespace by its path and by what was found there. */
export interface NamespaceRecord {
  readonly path: string
  /** "device:inode" of the namespace. */
  readonly identity: string
}

/** The key of an owner's lines: "CONTAINER@INTERFACE". */
export function ownerKey({ containerId, ifName }: LeaseOwner): string {
  return `${containerId}@${ifName}`
}

/**
 * Writes a record as one line: a checksum, then owner, addresses, boot id, times, namespace and its path, separated by
 * blanks. The checksum reveals a partly written line.
 */
export function formatRecord({ owner, addresses, bootId, written, netns }: LeaseRecord): string {
  const fields = [ownerKey(owner), addresses.join(","), bootId, written.join(",")]
  if (netns && !netns.path.includes("\n")) fields.push(netns.identity, netns.path)
  const text = fields.join(" ")
  return `${checksum(text)} ${text}`
}

/** Reads a line; `undefined` when it is no record, or not whole. */
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

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, "0")
}

const fileCount = 256

/**
 * The records of all owners as lines of text, spread over 256 files, "owners-00" to "owners-ff", so that a look-up reads
 * a few of them only. A file is read when it is needed and rewritten in place.
 */
export class Owners {
  readonly #files: Files
  readonly #directory: string
  /** The lines of the files read so far. */
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

  /** Sets the record of an owner, or removes it. Throws `SyscallError`. */
  set(owner: LeaseOwner, record: LeaseRecord | undefined): void {
    const key = ownerKey(owner)
    const name = fileName(fileNumberOf(owner))
    const lines: string[] = []
    for (const line of this.#read(name)) if (!isAbout(line, key)) lines.push(line)
    if (record) lines.push(formatRecord(record))
    this.#write(name, lines)
  }

  /** The records of one file, each with its line. `names` are those of all files in the directory. */
  linesIn(names: readonly string[], number: number): Map<LeaseRecord, string> {
    const lines = new Map<LeaseRecord, string>()
    const name = fileName(number)
    for (const line of names.includes(name) ? this.#read(name) : []) {
      const record = parseRecord(line)
      if (record) lines.set(record, line)
    }
    return lines
  }

  /**
   * Replaces the records, one file after the other, so that memory never has all of them taken apart. `renew` gets those
   * that a file has and its number, and returns those that it is to have. `names` are those of all files in the directory,
   * `numbers` those of the files that are to have records: no other file is looked at.
   */
  replaceAll(
    names: readonly string[],
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

  /** Everyone who has a record in the files read so far; after `replaceAll`, in all of them. */
  list(): LeaseOwner[] {
    return [...this.#lines.values()].flat().flatMap((line) => parseRecord(line)?.owner ?? [])
  }

  #read(name: string): string[] {
    const known = this.#lines.get(name)
    if (known) return known
    // What is no file has no records: the index goes by the reservations' files then.
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

/** The records that a file of the index is to have, by those that it has and its number. */
export type Renew = (known: LeaseRecord[], number: number) => LeaseRecord[]

/** Whether a line is that of an owner: "CHECKSUM KEY …". */
function isAbout(line: string, key: string): boolean {
  return line.startsWith(`${key} `, 9)
}

/** The number of the file in which the lines of an owner are: one for all interfaces of a container. */
export function fileNumberOf({ containerId }: LeaseOwner): number {
  return crc32(containerId) % fileCount
}

/** The numbers of the files of owners among the names in an index. */
export function fileNumbersIn(names: readonly string[]): number[] {
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
