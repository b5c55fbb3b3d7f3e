import { isErrno, readFileIfThere, unlinkIfThere } from "../../pkg/libc/mod.ts"
import { CniError, Code, type Owner } from "../../pkg/types/mod.ts"
import { decodeBackup } from "./backup.ts"

/** Ways of not being there, besides ENOENT: a file with a name that is too long cannot exist either. */
const nothingThere = ["ENOTDIR", "ENAMETOOLONG"] as const

/**
 * The backup of an attachment under upstream's name, which is what upstream writes and we have written before. Container
 * "a" with interface "b_c" and container "a_b" with "c" have one such file, and all networks together.
 */
export class FormerFile {
  readonly path: string
  readonly #draft: string
  readonly #network: string

  constructor(directory: string, owner: Owner) {
    this.path = `${directory}/${formerName(owner)}`
    this.#draft = `${directory}/${formerDraftPrefix(owner.network)}${formerName(owner)}`
    this.#network = owner.network
  }

  /** What is in it, unless it says that another network has written it; undefined when there is none. Throws `CniError`. */
  read(): Uint8Array | undefined {
    const bytes = readIfThere(this.path)
    const network = bytes && decodeBackup(bytes).network
    return network === undefined || network === this.#network ? bytes : undefined
  }

  /** Throws `SyscallError`. */
  remove(): void {
    this.removeDraft()
    remove(this.path)
  }

  /** What a call has left that was killed. Throws `SyscallError`. */
  removeDraft(): void {
    remove(this.#draft)
  }
}

/** Whether a file is a network's, by its name as a draft or by what is in it, and of none of the valid attachments. */
export function isStaleFormer(path: string, network: string, valid: readonly Owner[]): boolean {
  const name = path.slice(path.lastIndexOf("/") + 1)
  const prefix = formerDraftPrefix(network)
  const isDraft = name.startsWith(prefix)
  const own = isDraft ? name.slice(prefix.length) : name
  if (valid.some((owner) => formerName(owner) === own)) return false
  if (isDraft || !name.endsWith(".json")) return isDraft
  const bytes = readFileIfThere(path)
  return bytes !== undefined && decodeBackup(bytes).network === network
}

/** The bytes of a file; undefined when there is none. Throws `CniError`. */
export function readIfThere(path: string): Uint8Array | undefined {
  try {
    return readFileIfThere(path)
  } catch (cause) {
    if (isErrno(cause, ...nothingThere)) return undefined
    throw new CniError(Code.Io, `Cannot read the backup "${path}"`, { cause })
  }
}

/** Removes a file, if there is one. Throws `SyscallError`. */
export function remove(path: string): void {
  try {
    unlinkIfThere(path)
  } catch (error) {
    if (!isErrno(error, ...nothingThere)) throw error
  }
}

function formerName({ containerId, ifName }: Owner): string {
  return `${containerId}_${ifName}.json`
}

/** No container ID begins with ".", and no name of a network has a "~". */
function formerDraftPrefix(network: string): string {
  return `.${network.slice(0, 64)}~`
}
