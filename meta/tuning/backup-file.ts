import { findFile } from "../../pkg/libc/mod.ts"
import { isRecordOf, Records, recordName, removeIfThere } from "../../pkg/records/mod.ts"
import type { Owner } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"
import { decodeBackup } from "./backup.ts"

/** What errors call one of the files. */
const WHAT = "backup"

/**
 * The file with the backup of one attachment. It may have upstream's name, which is what upstream writes and we have written
 * before: container "a" with interface "b_c" and container "a_b" with "c" have one such file, and all networks together.
 */
export class BackupFile {
  readonly #network: string
  readonly #records: Records
  readonly #name: string
  readonly #formerName: string
  readonly #formerDraft: string
  /** Whether what `read` has found is under the former name. */
  #isFormer = false

  constructor(directory: string, owner: Owner) {
    this.#network = owner.network
    this.#records = new Records(directory, WHAT)
    this.#name = recordName(owner)
    this.#formerName = formerName(owner)
    this.#formerDraft = `${formerDraftPrefix(owner.network)}${formerName(owner)}`
  }

  /** Its content, also under the former name; undefined when there is none. Throws `CniError`. */
  read(): Uint8Array | undefined {
    const found = this.#records.read(this.#name)
    const former = found ? undefined : this.#readFormer()
    this.#isFormer = former !== undefined
    return found ?? former
  }

  /** Makes it hold these bytes, whole or not at all. One under the former name goes. Throws `CniError`. */
  write(bytes: Uint8Array): void {
    this.#records.write(this.#name, bytes)
    if (this.#isFormer) this.#removeFormer()
  }

  /** Takes back a `write`: what `read` has found is there again, under the name that it had. Throws `CniError`. */
  putBack(earlier: Uint8Array | undefined): void {
    if (earlier) this.#records.write(this.#isFormer ? this.#formerName : this.#name, earlier)
    if (!earlier || this.#isFormer) this.#records.remove(this.#name)
  }

  /** Removes it under either name, and what a call has left that was killed. None there is success. Throws `CniError`. */
  remove(): void {
    this.#records.remove(this.#name)
    this.#records.remove(this.#formerDraft)
    if (this.#isFormer) this.#records.remove(this.#formerName)
  }

  #removeFormer(): void {
    this.#records.remove(this.#formerDraft)
    this.#records.remove(this.#formerName)
  }

  /** What is under the former name, unless it says that another network has written it. */
  #readFormer(): Uint8Array | undefined {
    const bytes = this.#records.read(this.#formerName)
    const network = bytes && decodeBackup(bytes).network
    return network === undefined || network === this.#network ? bytes : undefined
  }
}

/**
 * Removes the backups of a network whose attachments are not among the valid ones. A file that does not say which network
 * it belongs to, as those that upstream wrote, stays: its container may be alive. Throws `CniError`.
 */
export function removeStaleBackups(directory: string, network: string, valid: readonly Owner[]): void {
  const keep = new Set(valid.map(recordName))
  const records = new Records(directory, WHAT)
  const failures = new Failures()
  for (const name of records.list()) {
    const path = records.pathOf(name)
    failures.attempt(`remove the stale backup "${path}"`, () => {
      const own = name.startsWith(".") ? name.slice(1) : name
      const isStale = own.includes(":")
        ? isRecordOf(own, network) && !keep.has(own)
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

/** Throws `CniError` when backups could not be written, as `Records.requireWritable` finds it out. */
export function requireDirectory(directory: string): void {
  new Records(directory, WHAT).requireWritable()
}

function formerName({ containerId, ifName }: Owner): string {
  return `${containerId}_${ifName}.json`
}

/** No container ID begins with ".", and no name of a network has a "~". */
function formerDraftPrefix(network: string): string {
  return `.${network.slice(0, 64)}~`
}
