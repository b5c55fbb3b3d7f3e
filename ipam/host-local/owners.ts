import { crc32, decodeUtf8 } from "../../pkg/engine/mod.ts"
import { type Files, writeSmall } from "./files.ts"
import type { Owner } from "./owner.ts"
import { formatRecord, type LeaseRecord, ownerKey, parseRecord } from "./record.ts"

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

  get(owner: Owner): LeaseRecord | undefined {
    const key = ownerKey(owner)
    for (const line of this.#read(fileOf(owner))) if (isAbout(line, key)) return parseRecord(line)
    return undefined
  }

  /** Sets the record of an owner, or removes it. Throws `SyscallError`. */
  set(owner: Owner, record: LeaseRecord | undefined): void {
    const key = ownerKey(owner)
    const name = fileOf(owner)
    const lines: string[] = []
    for (const line of this.#read(name)) if (!isAbout(line, key)) lines.push(line)
    if (record) lines.push(formatRecord(record))
    this.#write(name, lines)
  }

  /** Every record, by the owner's key. `names` are those of all files in the directory. */
  all(names: readonly string[]): Map<string, LeaseRecord> {
    const records = new Map<string, LeaseRecord>()
    for (const name of names.filter((each) => each.startsWith("owners-"))) {
      for (const line of this.#read(name)) {
        const record = parseRecord(line)
        if (record) records.set(ownerKey(record.owner), record)
      }
    }
    return records
  }

  /** Replaces every record, having read `all` that there were. Throws `SyscallError`; from here on memory has them all. */
  replaceAll(records: Iterable<LeaseRecord>): void {
    const former = new Map(this.#lines)
    for (let number = 0; number < fileCount; number++) this.#lines.set(fileName(number), [])
    for (const record of records) this.#lines.get(fileOf(record.owner))?.push(formatRecord(record))
    for (const [name, lines] of this.#lines) {
      if (lines.toSorted().join() !== (former.get(name) ?? []).toSorted().join()) this.#write(name, lines)
    }
  }

  #read(name: string): string[] {
    const known = this.#lines.get(name)
    if (known) return known
    const bytes = this.#files.readFileIfThere(`${this.#directory}/${name}`)
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

/** Whether a line is that of an owner: "CHECKSUM KEY …". */
function isAbout(line: string, key: string): boolean {
  return line.startsWith(`${key} `, 9)
}

/** The file in which the lines of an owner are: one for all interfaces of a container. */
function fileOf({ containerId }: Owner): string {
  return fileName(crc32(containerId) % fileCount)
}

function fileName(number: number): string {
  return `owners-${number.toString(16).padStart(2, "0")}`
}
