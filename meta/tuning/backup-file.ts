import {
  createFile,
  findFile,
  isErrno,
  makeDirectories,
  randomHex,
  readDirectory,
  removeDirectory,
  rename,
  stat,
  tryUnlink,
} from "../../pkg/libc/mod.ts"
import { CniError, Code, type Owner } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"
import { decodeBackup } from "./backup.ts"

/** Errors that say that there is no file, besides ENOENT: one with a name that is too long cannot exist either. */
const nothingThere = ["ENOTDIR", "ENAMETOOLONG"] as const

/**
 * The file with the backup of one attachment. It may have upstream's name, which is what upstream writes and we have written
 * before: container "a" with interface "b_c" and container "a_b" with "c" have one such file, and all networks together.
 */
export class BackupFile {
  readonly #network: string
  readonly #directory: string
  readonly #path: string
  /** Where a new one is written before it takes the name. */
  readonly #draft: string
  readonly #formerPath: string
  readonly #formerDraft: string
  /** Whether what `read` has found is under the former name. */
  #isFormer = false

  constructor(directory: string, owner: Owner) {
    this.#network = owner.network
    this.#directory = directory
    this.#path = `${directory}/${nameOf(owner)}`
    this.#draft = `${directory}/.${nameOf(owner)}` // no name of a network begins with "."
    this.#formerPath = `${directory}/${formerName(owner)}`
    this.#formerDraft = `${directory}/${formerDraftPrefix(owner.network)}${formerName(owner)}`
  }

  /** What is in it, be it under the former name; undefined when there is none. Throws `CniError`. */
  read(): Uint8Array | undefined {
    const found = readIfThere(this.#path)
    const former = found ? undefined : this.#readFormer()
    this.#isFormer = former !== undefined
    return found ?? former
  }

  /** Makes it hold these bytes, whole or not at all, also after a power cut. One under the former name goes. Throws `CniError`. */
  write(bytes: Uint8Array): void {
    this.#writeTo(this.#path, bytes)
    if (this.#isFormer) this.#remove(this.#formerDraft, this.#formerPath)
  }

  /** Takes back a `write`: what `read` has found is there again, under the name that it had. Throws `CniError`. */
  putBack(earlier: Uint8Array | undefined): void {
    if (earlier) this.#writeTo(this.#isFormer ? this.#formerPath : this.#path, earlier)
    if (!earlier || this.#isFormer) this.#remove(this.#draft, this.#path)
  }

  /** Removes it under either name, and what a call has left that was killed. None there is success. Throws `CniError`. */
  remove(): void {
    this.#remove(this.#draft, this.#path, this.#formerDraft)
    if (this.#isFormer) this.#remove(this.#formerPath)
  }

  /** What is under the former name, unless it says that another network has written it. */
  #readFormer(): Uint8Array | undefined {
    const bytes = readIfThere(this.#formerPath)
    const network = bytes && decodeBackup(bytes).network
    return network === undefined || network === this.#network ? bytes : undefined
  }

  #writeTo(path: string, bytes: Uint8Array): void {
    try {
      makeDirectories(this.#directory, 0o700)
      removeIfThere(this.#draft) // of a call that was killed here
      createFile(this.#draft, bytes, 0o600)
      rename(this.#draft, path)
    } catch (cause) {
      throw new CniError(Code.Io, `Cannot write the backup "${path}"`, { cause })
    }
  }

  #remove(...paths: string[]): void {
    try {
      paths.forEach(removeIfThere)
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
  for (const name of namesIn(directory)) {
    const path = `${directory}/${name}`
    failures.attempt(`remove the stale backup "${path}"`, () => {
      const own = name.startsWith(".") ? name.slice(1) : name
      const isStale = own.includes(":")
        ? own.startsWith(`${network}:`) && own.endsWith(".json") && !keep.has(own)
        : isStaleFormer(path, network, valid)
      if (isStale) removeIfThere(path)
    })
  }
  failures.throwIfAny()
}

/** Whether a file is a network's, by its name as a draft or by what is in it, and of none of the valid attachments. */
function isStaleFormer(path: string, network: string, valid: readonly Owner[]): boolean {
  const name = path.slice(path.lastIndexOf("/") + 1)
  const prefix = formerDraftPrefix(network)
  const isDraft = name.startsWith(prefix)
  const own = isDraft ? name.slice(prefix.length) : name
  if (valid.some((owner) => formerName(owner) === own)) return false
  if (isDraft || !name.endsWith(".json")) return isDraft
  const bytes = findFile(path)
  return bytes !== undefined && decodeBackup(bytes).network === network
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

/** The names in a directory; none when there is no such directory. */
function namesIn(directory: string): string[] {
  try {
    return readDirectory(directory)
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return []
    throw error
  }
}

/** The bytes of a file; undefined when there is none. Throws `CniError`. */
function readIfThere(path: string): Uint8Array | undefined {
  try {
    return findFile(path)
  } catch (cause) {
    if (isErrno(cause, ...nothingThere)) return undefined
    throw new CniError(Code.Io, `Cannot read the backup "${path}"`, { cause })
  }
}

/** Throws `SyscallError`. */
function removeIfThere(path: string): void {
  try {
    tryUnlink(path)
  } catch (error) {
    if (!isErrno(error, ...nothingThere)) throw error
  }
}

/** No name of a network, a container or an interface has a ":", so that no two attachments have one file. */
function nameOf({ network, containerId, ifName }: Owner): string {
  return `${network}:${containerId}:${ifName}.json`
}

function formerName({ containerId, ifName }: Owner): string {
  return `${containerId}_${ifName}.json`
}

/** No container ID begins with ".", and no name of a network has a "~". */
function formerDraftPrefix(network: string): string {
  return `.${network.slice(0, 64)}~`
}
