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

/** Errors that mean "no such file", as ENOENT does: a file with too long a name cannot exist. */
const nothingThere = ["ENOTDIR", "ENAMETOOLONG"] as const

/** The timeout of a call for the lock of the directory. Each call holds it for some hundredths of a second. */
const PATIENCE_MS = 10_000

/** Returns an attachment's file name. Names contain no ":", so that each attachment has its own file. */
export function recordName({ network, containerId, ifName }: Owner): string {
  return `${network}:${containerId}:${ifName}.json`
}

/** Returns the attachment of a file name. Returns undefined for drafts and other files. */
export function ownerOfRecord(name: string): Owner | undefined {
  const [network = "", containerId = "", ifName = "", ...rest] = name.replace(/\.json$/, "").split(":")
  const isRecord = name.endsWith(".json") && !name.startsWith(".") && rest.length === 0 && ifName !== ""
  return isRecord ? { network, containerId, ifName } : undefined
}

/** Reports whether a file name is that of a record of this network. */
export function isRecordOf(name: string, network: string): boolean {
  return name.startsWith(`${network}:`) && name.endsWith(".json")
}

/**
 * A directory of files, with the data of each attachment that DEL needs and the kernel cannot store. Only root can read
 * them. Each file is complete or does not exist, but after a power cut records that are not durable may be empty or
 * missing. They concern only objects that do not survive a reboot, and an unreadable record counts as absent.
 */
export class Records {
  readonly directory: string
  readonly #what: string
  readonly #isDurable: boolean
  #isOwn = false

  /** `what` names a record in errors. With `isDurable`, a record is on disk when `write` returns. */
  constructor(directory: string, what: string, isDurable = false) {
    this.directory = directory
    this.#what = what
    this.#isDurable = isDurable
  }

  /** Throws `CniError` if others can change the directory. Checks once, because they cannot gain this right later. */
  #requireOwn(): void {
    if (!this.#isOwn) requireOwn(this.directory)
    this.#isOwn = true
  }

  pathOf(name: string): string {
    return `${this.directory}/${name}`
  }

  /** Creates the directory if it does not exist. Only root can read it. Throws `CniError`. */
  make(): void {
    this.#requireOwn()
    orIo(`Cannot create the directory "${this.directory}"`, () => this.#makeDirectory())
  }

  #makeDirectory(): void {
    makeDirectories(this.directory, 0o700)
    requireOwn(this.directory) // another process may have created it in between
  }

  /**
   * Locks the directory with flock(2) until disposal. The kernel releases the lock when the process ends. Returns
   * undefined if there is no directory, and so no record. Throws `CniError`, with code 11 if another call holds the
   * lock for 10 s.
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

  /** Reads the file of this name. Returns `undefined` if it does not exist. Throws `CniError`. */
  read(name: string): Uint8Array | undefined {
    const path = this.pathOf(name)
    this.#requireOwn()
    const read = () => unlessErrno(() => findFile(path), ...nothingThere)
    return orIo(`Cannot read the ${this.#what} "${path}"`, read)
  }

  /** Writes these bytes to the file of this name. Throws `CniError`. */
  write(name: string, bytes: Uint8Array): void {
    const path = this.pathOf(name)
    const draft = this.pathOf(draftOf(name))
    this.#requireOwn()
    try {
      this.#makeDirectory()
      removeIfThere(draft) // left by a killed call
      createFile(draft, bytes, 0o600)
      if (this.#isDurable) syncPath(draft)
      rename(draft, path)
      if (this.#isDurable) syncPath(this.directory)
    } catch (cause) {
      try {
        removeIfThere(draft)
      } catch {} // the cause has the reason
      throw new CniError(Code.Io, `Cannot write the ${this.#what} "${path}"`, { cause })
    }
  }

  /** Removes the file, and the draft of a killed call. A missing file is not an error. Throws `CniError`. */
  remove(name: string): void {
    this.#requireOwn()
    orIo(`Cannot remove the ${this.#what} "${this.pathOf(name)}"`, () => {
      for (const file of [draftOf(name), name]) removeIfThere(this.pathOf(file))
    })
  }

  /** Returns all names in the directory; none if it does not exist. Throws `SyscallError` or `CniError`. */
  list(): string[] {
    this.#requireOwn()
    return unlessErrno(() => readDirectory(this.directory), "ENOENT", "ENOTDIR") ?? []
  }

  /**
   * Throws `CniError` if a record could not be written, because a part of the path is a file, is read-only, or can be
   * changed by others. Tests this with an unnamed file in the existing part of the path. If the file system does not
   * support unnamed files, creates and removes a directory, always under the same name, so that killed calls leave at
   * most one.
   */
  requireWritable(): void {
    orIo(`Cannot keep ${this.#what}s in "${this.directory}"`, () => {
      this.#requireOwn()
      const place = existingPart(this.directory)
      if (tryUnnamedFile(place)) return
      const probe = `${place}/.status`
      makeDirectories(probe, 0o700)
      unlessErrno(() => removeDirectory(probe), "ENOENT") // if another call has removed it, writing works too
    })
  }
}

/** Runs `act`. Its error becomes the cause of a `CniError` with this message and code 5. */
function orIo<T>(message: string, act: () => T): T {
  return orCannot(message, act, Code.Io)
}

/** Returns the name of the draft of a new record: no network name begins with ".". */
export function draftOf(name: string): string {
  return `.${name}`
}

/** Removes a file if it exists. Throws `SyscallError`. */
export function removeIfThere(path: string): void {
  unlessErrno(() => tryUnlink(path), ...nothingThere)
}

/** Returns the directory, or its nearest existing ancestor. `write` creates the rest. */
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
