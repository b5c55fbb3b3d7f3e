import { isDirectory, isErrno, readDirectory, removeDirectory, stat, unlink } from "../../../pkg/libc/mod.ts"
import { type Files, kernelFiles } from "../files.ts"
import { type LeaseOwner, listAddresses } from "../lease-file.ts"
import { type Address, formatAddress, parseRangeSets, type RangeText } from "../ranges.ts"
import type { NamespaceRecord } from "../records.ts"
import { release, releaseOthers, reserve } from "../reservations.ts"
import { Store } from "../store.ts"

export interface Caller {
  files?: Files
  bootId?: string
  netns?: NamespaceRecord
}

/** A store for a test, in memory if possible. It is deleted at the end of the scope. */
export class TemporaryStore implements Disposable {
  readonly directory: string
  /** The store's output on stderr. */
  readonly log: string[] = []
  /** The system calls for callers that have no `files`. */
  files = kernelFiles
  readonly #parent: string
  readonly #sets: ReturnType<typeof parseRangeSets>

  constructor(...sets: RangeText[][]) {
    this.#parent = `${memory()}/host-local-test-${Math.random().toString(36).slice(2)}`
    this.directory = `${this.#parent}/net`
    this.#sets = parseRangeSets(sets)
  }

  open({ files = this.files, bootId = "boot-1" }: Caller = {}): Store {
    return new Store({ directory: this.directory, log: (line) => this.log.push(line), files, bootId })
  }

  add(name: string, caller: Caller & { requested?: Address[] } = {}): string[] {
    const { requested = [], netns } = caller
    const request = { owner: owner(name), netns, ranges: { rangeSets: this.#sets, rangesFile: undefined }, requested }
    return reserve(this.open(caller), request).map(({ address }) => formatAddress(address))
  }

  del(name: string, caller: Caller = {}): void {
    release(this.open(caller), owner(name))
  }

  /** Runs GC with only these containers as valid. */
  keep(names: string[], caller: Caller = {}): void {
    releaseOthers(this.open(caller), ({ containerId }) => names.includes(containerId))
  }

  /** Returns the addresses that have files, in order. */
  addresses(): string[] {
    try {
      return Array.from(listAddresses(kernelFiles, this.directory), ([address]) => address).sort()
    } catch (error) {
      if (isErrno(error, "ENOENT")) return []
      throw error
    }
  }

  path(name: string): string {
    return `${this.directory}/${name}`
  }

  [Symbol.dispose](): void {
    removeTree(this.#parent)
  }
}

export function owner(containerId: string): LeaseOwner {
  return { containerId, ifName: "eth0" }
}

function memory(): string {
  try {
    return isDirectory(stat("/dev/shm")) ? "/dev/shm" : "/tmp"
  } catch {
    return "/tmp"
  }
}

function removeTree(path: string): void {
  try {
    if (isDirectory(stat(path, true))) {
      for (const name of readDirectory(path)) removeTree(`${path}/${name}`)
      removeDirectory(path)
    } else unlink(path)
  } catch (error) {
    if (!isErrno(error, "ENOENT")) throw error
  }
}
