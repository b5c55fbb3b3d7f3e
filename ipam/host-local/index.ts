import { FileDescriptor, Open, SyscallError } from "../../pkg/libc/mod.ts"
import { AF_INET } from "../../pkg/types/mod.ts"
import { type Files, ifPresent } from "./files.ts"
import type { LeaseOwner } from "./lease-file.ts"
import type { Address } from "./ranges.ts"
import { type LeaseRecord, Owners, type Renew } from "./records.ts"

/**
 * Makes questions to a store cheap: a record for each owner, and a bitmap of the taken addresses. A cache: the files of the
 * reservations have the say, and what cannot be written here only makes the next call read them all.
 */
export class Index {
  readonly #files: Files
  readonly #directory: string
  /** The addresses that each owner holds. */
  readonly records: Owners
  readonly #pages = new Map<string, Uint8Array>()
  /** Whether the bitmap is rebuilt: words that are not in memory then count as empty, also when the file has them. */
  #isNew = false
  #isWritten = true

  constructor(files: Files, directory: string) {
    this.#files = files
    this.#directory = directory
    this.records = new Owners(files, directory)
  }

  /** Whether the disk holds what this object knows. */
  get isWritten(): boolean {
    return this.#isWritten
  }

  /** Sets what an owner holds. */
  put(record: LeaseRecord): void {
    this.attempt(() => this.records.set(record.owner, record))
  }

  /** Forgets an owner. */
  drop(owner: LeaseOwner): void {
    this.attempt(() => this.records.set(owner, undefined))
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

  /** Has no address taken from here on, also where the disk has one; to be followed by `note`, and by `writePages`. */
  clear(): void {
    this.#isNew = true
    this.#pages.clear()
  }

  /** Marks an address as taken or free in memory alone. */
  note(address: Address, taken: boolean): void {
    const { page, bit } = placeOf(address)
    mark(this.#page(page), bit, taken)
  }

  /** Replaces the bitmap on the disk by what was noted. `names` are those of the index's files so far. */
  writePages(names: readonly string[]): void {
    for (const [name, page] of this.#pages) this.#writePage(name, page, 0)
    for (const name of names) {
      if (!name.startsWith("used-") || this.#pages.has(name)) continue
      this.attempt(() => ifPresent(() => this.#files.unlink(`${this.#directory}/${name}`)))
    }
  }

  /** Replaces the records file by file, see `Owners`. */
  replaceRecords(names: readonly string[], numbers: Iterable<number>, renew: Renew): void {
    this.records.replaceAll(names, numbers, { renew, attempt: (write) => this.attempt(write) })
  }

  /** Makes the next call rebuild the index, because a file was found that the index cannot represent. */
  distrust(): void {
    this.#isWritten = false
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
    if (!this.#isNew) {
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

/** The bytes of one page of the bitmap: a bit for each of 32768 addresses, set when the address is taken. */
export const pageBytes = 4096

const bitsPerPage = BigInt(pageBytes * 8)

/** The place of an address in the bitmap. */
export interface Place {
  /** "used-4-1e002": family and number of the page. */
  readonly page: string
  /** The first address of the page. */
  readonly start: bigint
  readonly bit: number
}

export function placeOf({ family, value }: Address): Place {
  const number = value / bitsPerPage
  const start = number * bitsPerPage
  return { page: `used-${family === AF_INET ? 4 : 6}-${number.toString(16)}`, start, bit: Number(value - start) }
}

/** Marks an address of a page; returns the index of the byte that holds it. */
export function mark(page: Uint8Array, bit: number, taken: boolean): number {
  const at = bit >> 3
  const mask = 1 << (bit & 7)
  page[at] = taken ? (page[at] ?? 0) | mask : (page[at] ?? 0) & ~mask
  return at
}

/** The first bit from `bit` on that is not set; `undefined` when the rest of the page is full. */
export function firstFree(page: Uint8Array, bit: number): number | undefined {
  for (let at = bit >> 3; at < page.length; at++) {
    const byte = (page[at] ?? 0) | (at === bit >> 3 ? (1 << (bit & 7)) - 1 : 0)
    if (byte !== 0xff) return at * 8 + 31 - Math.clz32(~byte & (byte + 1))
  }
  return undefined
}
