import {
  createFile,
  FileDescriptor,
  findFile,
  isErrno,
  lockWithin,
  makeDirectories,
  readDirectory,
  removeDirectory,
  rename,
  stat,
  syncPath,
  tryLock,
  tryUnlink,
  tryUnnamedFile,
  unlessErrno,
} from "../libc/mod.ts"
import { CniError, Code, type Owner, orCannot } from "../types/mod.ts"
import { requireOwn } from "./exposure.ts"

/** Errors that mean "no such file" in addition to ENOENT: a file whose name is too long cannot exist. */
const nothingThere = ["ENOTDIR", "ENAMETOOLONG"] as const

/** The time that a call waits for the lock of the directory: each call holds it for some hundredths of a second. */
const PATIENCE_MS = 10_000

/** The file's name of an attachment. No name of a network, a container or an interface has a ":", so that no two have one file. */
export function recordName({ network, containerId, ifName }: Owner): string {
  return `${network}:${containerId}:${ifName}.json`
}

/** The attachment of a file's name; undefined for drafts and what is no record. */
export function ownerOfRecord(name: string): Owner | undefined {
  const [network = "", containerId = "", ifName = "", ...rest] = name.replace(/\.json$/, "").split(":")
  const isRecord = name.endsWith(".json") && !name.startsWith(".") && rest.length === 0 && ifName !== ""
  return isRecord ? { network, containerId, ifName } : undefined
}

/** Whether a file's name is that of a record of this network's. */
export function isRecordOf(name: string, network: string): boolean {
  return name.startsWith(`${network}:`) && name.endsWith(".json")
}

/**
 * Files in a directory with the data of each attachment that DEL needs and the kernel cannot store. Only root can read
 * them; each is whole or does not exist. After a power cut records that are not durable may be empty or missing. They
 * concern only objects that no longer exist after a reboot, and an unreadable one counts as absent.
 */
export class Records {
  readonly directory: string
  readonly #what: string
  readonly #isDurable: boolean
  #isOwn = false

  /** `what` is the word that errors have for one of them. `isDurable`: each is on the disk when `write` returns. */
  constructor(directory: string, what: string, isDurable = false) {
    this.directory = directory
    this.#what = what
    this.#isDurable = isDurable
  }

  /** Throws `CniError` when others can change what is in the directory. Asked once: what they cannot change stays like that. */
  #requireOwn(): void {
    if (!this.#isOwn) requireOwn(this.directory)
    this.#isOwn = true
  }

  pathOf(name: string): string {
    return `${this.directory}/${name}`
  }

  /** Makes the directory, for root alone, if it is not there. Throws `CniError`. */
  make(): void {
    this.#requireOwn()
    orIo(`Cannot make the directory "${this.directory}"`, () => this.#makeDirectory())
  }

  #makeDirectory(): void {
    makeDirectories(this.directory, 0o700)
    requireOwn(this.directory) // another process may have made it in between
  }

  /**
   * Takes the directory's lock of flock(2) until it is disposed; the kernel frees it when the process ends. Undefined where there is
   * no directory, and so no record. Throws `CniError`, with code 11 when another call holds it for 10 s.
   */
  lock(): FileDescriptor | undefined {
    this.#requireOwn()
    const open = () => unlessErrno(() => FileDescriptor.find(this.directory), ...nothingThere)
    const place = orIo(`Cannot open "${this.directory}"`, open)
    if (!place || lockWithin(PATIENCE_MS, () => tryLock(place.fd))) return place
    place[Symbol.dispose]()
    const waited = PATIENCE_MS / 1000
    throw new CniError(
      Code.TryAgainLater,
      `Cannot lock "${this.directory}": another call holds it, waited for ${waited} s`,
    )
  }

  /** Reads the file of this name; `undefined` when it does not exist. Throws `CniError`. */
  read(name: string): Uint8Array | undefined {
    const path = this.pathOf(name)
    this.#requireOwn()
    const read = () => unlessErrno(() => findFile(path), ...nothingThere)
    return orIo(`Cannot read the ${this.#what} "${path}"`, read)
  }

  /** Makes the file of this name hold these bytes. Throws `CniError`. */
  write(name: string, bytes: Uint8Array): void {
    const path = this.pathOf(name)
    const draft = this.pathOf(draftOf(name))
    this.#requireOwn()
    try {
      this.#makeDirectory()
      removeIfThere(draft) // of a call that was killed here
      createFile(draft, bytes, 0o600)
      if (this.#isDurable) syncPath(draft)
      rename(draft, path)
      if (this.#isDurable) syncPath(this.directory)
    } catch (cause) {
      try {
        removeIfThere(draft)
      } catch {} // what is wrong is the cause
      throw new CniError(Code.Io, `Cannot write the ${this.#what} "${path}"`, { cause })
    }
  }

  /** Removes the file of this name, and a draft that a killed call has left. None there is success. Throws `CniError`. */
  remove(name: string): void {
    this.#requireOwn()
    orIo(`Cannot remove the ${this.#what} "${this.pathOf(name)}"`, () => {
      for (const file of [draftOf(name), name]) removeIfThere(this.pathOf(file))
    })
  }

  /**
   * The names in the directory, temporary files among them; empty when the directory does not exist. Throws
   * `SyscallError` or `CniError`.
   */
  list(): string[] {
    this.#requireOwn()
    return unlessErrno(() => readDirectory(this.directory), "ENOENT", "ENOTDIR") ?? []
  }

  /**
   * Throws `CniError` when a record could not be written: a part of the path is a file, is read-only, or can be changed
   * by others. Tries it in the existing part of the path with a file without a name; where the file system has no such
   * files, with a directory that it creates and removes, always of the same name, so that killed calls leave one at
   * most.
   */
  requireWritable(): void {
    orIo(`Cannot keep ${this.#what}s in "${this.directory}"`, () => {
      this.#requireOwn()
      const place = existingPart(this.directory)
      if (tryUnnamedFile(place)) return
      const probe = `${place}/.status`
      makeDirectories(probe, 0o700)
      unlessErrno(() => removeDirectory(probe), "ENOENT") // that another call has removed it shows the same
    })
  }
}

/** Runs `act`. Its error becomes the cause of a `CniError` with this message and code 5. */
function orIo<T>(message: string, act: () => T): T {
  return orCannot(message, act, Code.Io)
}

/** The draft of a new record: no name of a network begins with ".". */
export function draftOf(name: string): string {
  return `.${name}`
}

/** Removes a file, if there is one. Throws `SyscallError`. */
export function removeIfThere(path: string): void {
  unlessErrno(() => tryUnlink(path), ...nothingThere)
}

/** The directory, or the one nearest to it that is there: `write` makes the rest. */
function existingPart(directory: string): string {
  for (let at = directory; ; at = at.slice(0, at.lastIndexOf("/"))) {
    const place = at === "" ? "/" : at
    try {
      stat(place)
      return place
    } catch (error) {
      if (place === "/" || !isErrno(error, "ENOENT")) throw error
    }
  }
}
