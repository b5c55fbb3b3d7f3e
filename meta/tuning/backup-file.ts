import {
  createFile,
  isErrno,
  makeDirectories,
  randomHex,
  readDirectory,
  removeDirectory,
  rename,
  stat,
} from "../../pkg/libc/mod.ts"
import { CniError, Code, type Owner } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"
import { FormerFile, isStaleFormer, readIfThere, remove } from "./former-file.ts"

/** The file with the backup of one attachment. */
export class BackupFile {
  readonly #directory: string
  readonly #path: string
  /** Where a new one is written before it takes the name. */
  readonly #draft: string
  readonly #former: FormerFile
  /** Whether what `read` has found is under a former name. */
  #isFormer = false

  constructor(directory: string, owner: Owner) {
    this.#directory = directory
    this.#path = `${directory}/${nameOf(owner)}`
    this.#draft = `${directory}/${draftOf(nameOf(owner))}`
    this.#former = new FormerFile(directory, owner)
  }

  /** What is in it, be it under a former name; undefined when there is none. Throws `CniError`. */
  read(): Uint8Array | undefined {
    const found = readIfThere(this.#path)
    const former = found ? undefined : this.#former.read()
    this.#isFormer = former !== undefined
    return found ?? former
  }

  /** Makes it hold these bytes, whole or not at all, also after a power cut. What was under a former name goes. Throws `CniError`. */
  write(bytes: Uint8Array): void {
    this.#writeTo(this.#path, bytes)
    if (this.#isFormer) this.#removing(() => this.#former.remove())
  }

  /** Takes back a `write`: what `read` has found is there again, under the name that it had. Throws `CniError`. */
  putBack(earlier: Uint8Array | undefined): void {
    if (earlier) this.#writeTo(this.#isFormer ? this.#former.path : this.#path, earlier)
    if (!earlier || this.#isFormer) this.#removeOwn()
  }

  /** Removes it, whichever name `read` has found it under. None there is success. Throws `CniError`. */
  remove(): void {
    this.#removeOwn()
    this.#removing(() => (this.#isFormer ? this.#former.remove() : this.#former.removeDraft()))
  }

  #removeOwn(): void {
    this.#removing(() => {
      remove(this.#draft)
      remove(this.#path)
    })
  }

  #writeTo(path: string, bytes: Uint8Array): void {
    try {
      makeDirectories(this.#directory, 0o700)
      remove(this.#draft) // of a call that was killed here
      createFile(this.#draft, bytes, 0o600)
      rename(this.#draft, path)
    } catch (cause) {
      throw new CniError(Code.Io, `Cannot write the backup "${path}"`, { cause })
    }
  }

  #removing(action: () => void): void {
    try {
      action()
    } catch (cause) {
      throw new CniError(Code.Io, `Cannot remove the backup "${this.#path}"`, { cause })
    }
  }
}

/**
 * Removes the backups of a network whose attachments are not among the valid ones. A file that does not say which network
 * it belongs to, as those that upstream wrote, stays: its container may be alive. Throws `CniError`.
 */
export function removeStaleBackups(directory: string, network: string, valid: readonly Owner[]): void {
  const keep = new Set(valid.map(nameOf))
  const failures = new Failures()
  for (const name of namesIn(directory, "ENOENT", "ENOTDIR")) {
    const path = `${directory}/${name}`
    failures.attempt(`remove the stale backup "${path}"`, () => {
      const own = name.startsWith(".") ? name.slice(1) : name
      const isStale = own.includes(":")
        ? own.startsWith(`${network}:`) && own.endsWith(".json") && !keep.has(own)
        : isStaleFormer(path, network, valid)
      if (isStale) remove(path)
    })
  }
  failures.throwIfAny()
}

/**
 * Throws `CniError` when backups could not be written: the directory, or what leads to it, is a file, or is read-only. Tries
 * by a directory that it makes and removes, in what there is of the path.
 */
export function requireDirectory(directory: string): void {
  try {
    const probe = `${existingPart(directory)}/.status-${randomHex(8)}`
    makeDirectories(probe, 0o700)
    removeDirectory(probe)
  } catch (cause) {
    throw new CniError(Code.Io, `Cannot keep backups in "${directory}"`, { cause })
  }
}

/** The directory, or the one nearest to it that is there: ADD makes the rest. */
function existingPart(directory: string): string {
  for (let at = directory; ; at = at.slice(0, at.lastIndexOf("/"))) {
    try {
      stat(at === "" ? "/" : at)
      return at
    } catch (error) {
      if (at === "" || !isErrno(error, "ENOENT")) throw error
    }
  }
}

/** The names in a directory; none when it is absent in one of these ways. */
function namesIn(directory: string, ...absent: ("ENOENT" | "ENOTDIR")[]): string[] {
  try {
    return readDirectory(directory)
  } catch (error) {
    if (isErrno(error, ...absent)) return []
    throw error
  }
}

/** No name of a network, a container or an interface has a ":", so that no two attachments have one file. */
function nameOf({ network, containerId, ifName }: Owner): string {
  return `${network}:${containerId}:${ifName}.json`
}

/** No name of a network begins with ".", so that no backup is taken for a draft. */
function draftOf(name: string): string {
  return `.${name}`
}
