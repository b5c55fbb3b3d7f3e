import { FileDescriptor, Open, SyscallError } from "../../pkg/libc/mod.ts"
import { AF_INET } from "../../pkg/types/mod.ts"
import { type Files, ifPresent } from "./files.ts"
import type { LeaseOwner } from "./lease-file.ts"
import type { Address } from "./ranges.ts"
import { type LeaseRecord, Owners, type Renew } from "./records.ts"

/**
 * The index of a store, which makes searches fast: a record for each owner, and a bitmap of the taken addresses. It is
 * a cache of the reservations' files. If it cannot be written, the next call rebuilds it from them.
 */
export class Index {
  readonly #files: Files
  readonly #directory: string
  readonly records: Owners
  readonly #pages = new Map<string, Uint8Array>()
  /** Whether the bitmap is being rebuilt. If so, pages on disk are not read, and those not in memory count as empty. */
  #isNew = false
  #isWritten = true

  constructor(files: Files, directory: string) {
    this.#files = files
    this.#directory = directory
    this.records = new Owners(files, directory)
  }

  /** Whether the index on disk equals this object. */
  get isWritten(): boolean {
    return this.#isWritten
  }

  put(record: LeaseRecord): void {
    this.attempt(() => this.records.set(record.owner, record))
  }

  drop(owner: LeaseOwner): void {
    this.attempt(() => this.records.set(owner, undefined))
  }

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

  set(address: Address, taken: boolean): void {
    const { page, bit } = placeOf(address)
    const bytes = this.#page(page)
    const at = mark(bytes, bit, taken)
    this.#writePage(page, bytes.subarray(at, at + 1), at)
  }

  /** Clears the bitmap in memory and ignores the one on disk. `note` and `writePages` must follow. */
  clear(): void {
    this.#isNew = true
    this.#pages.clear()
  }

  /** Marks an address as taken or free, only in memory. */
  note(address: Address, taken: boolean): void {
    const { page, bit } = placeOf(address)
    mark(this.#page(page), bit, taken)
  }

  /** Replaces the bitmap on disk with the one in memory. `names` are the current files of the index. */
  writePages(names: readonly string[]): void {
    for (const [name, page] of this.#pages) this.#writePage(name, page, 0)
    for (const name of names) {
      if (!name.startsWith("used-") || this.#pages.has(name)) continue
      this.attempt(() => ifPresent(() => this.#files.unlink(`${this.#directory}/${name}`)))
    }
  }

  /** Replaces the records file by file; see `Owners`. */
  replaceRecords(names: readonly string[], numbers: Iterable<number>, renew: Renew): void {
    this.records.replaceAll(new Set(names), numbers, { renew, attempt: (write) => this.attempt(write) })
  }

  /** Makes the next call rebuild the index, because a file differs from what the index says. */
  distrust(): void {
    this.#isWritten = false
  }

  /** Calls `write`. If that fails, the next call rebuilds the index. */
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
    const page = new Uint8Array(pageBytes) // a file may be shorter; its missing bits are free addresses
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

/** The size of a page of the bitmap in bytes. A page has 32768 bits, each of which is set if its address is taken. */
export const pageBytes = 4096

const bitsPerPage = BigInt(pageBytes * 8)

export interface Place {
  /** The file of the page: "used-4-1e002" has the family and the number. */
  readonly page: string
  readonly start: bigint
  readonly bit: number
}

export function placeOf({ family, value }: Address): Place {
  const number = value / bitsPerPage
  const start = number * bitsPerPage
  return { page: `used-${family === AF_INET ? 4 : 6}-${number.toString(16)}`, start, bit: Number(value - start) }
}

/** Marks an address in a page. Returns the index of the changed byte. */
export function mark(page: Uint8Array, bit: number, taken: boolean): number {
  const at = bit >> 3
  const mask = 1 << (bit & 7)
  page[at] = taken ? (page[at] ?? 0) | mask : (page[at] ?? 0) & ~mask
  return at
}

/** Returns the first clear bit from `bit` on, or `undefined` if the rest of the page is full. */
export function firstFree(page: Uint8Array, bit: number): number | undefined {
  for (let at = bit >> 3; at < page.length; at++) {
    const byte = (page[at] ?? 0) | (at === bit >> 3 ? (1 << (bit & 7)) - 1 : 0)
    if (byte !== 0xff) return at * 8 + 31 - Math.clz32(~byte & (byte + 1))
  }
  return undefined
}
