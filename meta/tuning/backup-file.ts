import {
  createFile,
  isErrno,
  makeDirectories,
  randomHex,
  readDirectory,
  readFileIfThere,
  removeDirectory,
  rename,
  stat,
  unlinkIfThere,
} from "../../pkg/libc/mod.ts"
import { CniError, Code, type Owner } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"
import { decodeBackup } from "./backup.ts"

/** Ways of not being there, besides ENOENT: a file with a name that is too long cannot exist either. */
const nothingThere = ["ENOTDIR", "ENAMETOOLONG"] as const

/** The file with the backup of one attachment, under upstream's name. */
export class BackupFile {
  readonly #directory: string
  readonly #path: string
  /** Where a new one is written before it takes the name. The network is in it for GC, to know whose it is. */
  readonly #draft: string

  constructor(directory: string, owner: Owner) {
    this.#directory = directory
    this.#path = `${directory}/${nameOf(owner)}`
    this.#draft = `${directory}/${draftPrefix(owner.network)}${nameOf(owner)}`
  }

  /** What is in it; undefined when there is none. Throws `CniError`. */
  read(): Uint8Array | undefined {
    try {
      return readFileIfThere(this.#path)
    } catch (cause) {
      if (isErrno(cause, ...nothingThere)) return undefined
      throw new CniError(Code.Io, `Cannot read the backup "${this.#path}"`, { cause })
    }
  }

  /** Makes it hold these bytes, whole or not at all, also after a power cut. Throws `CniError`. */
  write(bytes: Uint8Array): void {
    try {
      makeDirectories(this.#directory, 0o700)
      remove(this.#draft) // of a call that was killed here
      createFile(this.#draft, bytes, 0o600)
      rename(this.#draft, this.#path)
    } catch (cause) {
      throw new CniError(Code.Io, `Cannot write the backup "${this.#path}"`, { cause })
    }
  }

  /** Removes it. None there is success. Throws `CniError`. */
  remove(): void {
    try {
      remove(this.#draft)
      remove(this.#path)
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
  const draft = draftPrefix(network)
  const failures = new Failures()
  for (const name of namesIn(directory, "ENOENT", "ENOTDIR")) {
    const path = `${directory}/${name}`
    const isDraft = name.startsWith(draft)
    if (keep.has(isDraft ? name.slice(draft.length) : name)) continue
    failures.attempt(`remove the stale backup "${path}"`, () => {
      if (isDraft || (name.endsWith(".json") && networkOf(path) === network)) remove(path)
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

function nameOf({ containerId, ifName }: Pick<Owner, "containerId" | "ifName">): string {
  return `${containerId}_${ifName}.json`
}

/** No container ID begins with ".", so that no backup is taken for a draft; no name of a network holds "~". */
function draftPrefix(network: string): string {
  return `.${network.slice(0, 64)}~`
}

function networkOf(path: string): string | undefined {
  const bytes = readFileIfThere(path)
  return bytes && decodeBackup(bytes).network
}

function remove(path: string): void {
  try {
    unlinkIfThere(path)
  } catch (error) {
    if (!isErrno(error, ...nothingThere)) throw error
  }
}
