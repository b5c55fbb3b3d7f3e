import { FileDescriptor, isErrno, Open, SyscallError } from "../../pkg/libc/mod.ts"
import type { Address } from "./address.ts"
import { firstFree, mark, pageBytes, placeOf } from "./bitmap.ts"
import { type Files, ifPresent } from "./files.ts"
import type { Owner } from "./owner.ts"
import { formatRecord, type LeaseRecord, parseRecord, recordName } from "./record.ts"

/**
 * What makes a store cheap to ask: for each owner a symbolic link whose text says what it holds, and a bitmap of the taken
 * addresses. A cache: the files of the reservations have the say, and whatever cannot be written here only makes the next
 * call read them all.
 */
export class Index {
  readonly #files: Files
  readonly #directory: string
  readonly #pages = new Map<string, Uint8Array>()
  readonly #records = new Map<string, LeaseRecord | undefined>()
  /** Whether the disk has what memory has not; a rebuilt index has everything in memory. */
  readonly #stored: boolean
  #isWritten = true

  constructor(files: Files, directory: string, stored: boolean) {
    this.#files = files
    this.#directory = directory
    this.#stored = stored
  }

  /** Whether the disk holds what this object knows. */
  get isWritten(): boolean {
    return this.#isWritten
  }

  /** What an owner holds. */
  record(owner: Owner): LeaseRecord | undefined {
    const name = recordName(owner)
    if (!this.#records.has(name)) this.#records.set(name, this.#stored ? this.read(name) : undefined)
    return this.#records.get(name)
  }

  /** A record by its name, from the disk. */
  read(name: string): LeaseRecord | undefined {
    try {
      return parseRecord(this.#files.readlink(`${this.#directory}/${name}`))
    } catch (error) {
      if (isErrno(error, "ENOENT", "EINVAL")) return undefined // EINVAL: not a symbolic link, hence none of ours
      throw error
    }
  }

  /** Sets what an owner holds. Pass `kept` when the disk has it already. */
  put(owner: Owner, record: LeaseRecord, kept = false): void {
    const name = recordName(owner)
    this.#records.set(name, record)
    if (kept) return
    this.attempt(() => {
      const path = `${this.#directory}/${name}`
      try {
        this.#files.symlink(formatRecord(record), path)
      } catch (error) {
        if (!isErrno(error, "EEXIST")) throw error
        this.#files.unlink(path)
        this.#files.symlink(formatRecord(record), path)
      }
    })
  }

  /** Forgets an owner. */
  drop(owner: Owner): void {
    const name = recordName(owner)
    this.#records.set(name, undefined)
    this.remove(name)
  }

  /** Removes a file of the index. */
  remove(name: string): void {
    this.attempt(() => ifPresent(() => this.#files.unlink(`${this.#directory}/${name}`)))
  }

  /** The first address of `first` to `last` that is not taken. */
  nextFree(first: Address, last: Address): Address | undefined {
    const { family } = first
    for (let { value } = first; value <= last.value; ) {
      const { page, start, bit } = placeOf({ family, value })
      const free = firstFree(this.#page(page), bit)
      if (free !== undefined) {
        value = start + BigInt(free)
        return value <= last.value ? { family, value } : undefined
      }
      value = start + BigInt(pageBytes * 8)
    }
    return undefined
  }

  /** Marks an address as taken or free. */
  set(address: Address, taken: boolean): void {
    const { page, bit } = placeOf(address)
    const bytes = this.#page(page)
    const at = mark(bytes, bit, taken)
    this.#writePage(page, bytes.subarray(at, at + 1), at)
  }

  /** Replaces the bitmap. Answers the names of its pages. */
  setAll(addresses: Iterable<Address>): Set<string> {
    this.#pages.clear()
    for (const address of addresses) {
      const { page, bit } = placeOf(address)
      mark(this.#page(page), bit, true)
    }
    for (const [name, page] of this.#pages) this.#writePage(name, page, 0)
    return new Set(this.#pages.keys())
  }

  /** Writes to the disk if that is possible. */
  attempt(write: () => void): void {
    try {
      write()
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error
      this.#isWritten = false
    }
  }

  #page(name: string): Uint8Array {
    const known = this.#pages.get(name)
    if (known) return known
    const page = new Uint8Array(pageBytes) // a file may be shorter: nothing is taken in the rest
    if (this.#stored) {
      ifPresent(() => {
        using file = new FileDescriptor(this.#files.open(`${this.#directory}/${name}`, Open.ReadOnly))
        this.#files.read(file.fd, page)
      })
    }
    this.#pages.set(name, page)
    return page
  }

  #writePage(name: string, bytes: Uint8Array, at: number): void {
    this.attempt(() => {
      using file = new FileDescriptor(
        this.#files.open(`${this.#directory}/${name}`, Open.WriteOnly | Open.Create, 0o600),
      )
      this.#files.writeAt(file.fd, bytes, at)
    })
  }
}
