import { isRecordOf, Records, recordName, removeIfThere } from "../../pkg/records/mod.ts"
import type { Owner } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"

/** The kind of the files in error messages. */
const WHAT = "backup"

/**
 * The file with the backup of one attachment. A file of upstream's plugin has upstream's name, which container "a" with
 * interface "b_c" shares with container "a_b" with "c", and all networks share. It is read only if there is no file
 * with our own name.
 */
export class BackupFile {
  readonly #records: Records
  readonly #name: string
  readonly #upstreamName: string
  /** Whether `read` has found upstream's file. */
  #isUpstreams = false

  constructor(directory: string, owner: Owner) {
    this.#records = new Records(directory, WHAT)
    this.#name = recordName(owner)
    this.#upstreamName = `${owner.containerId}_${owner.ifName}.json`
  }

  /** Returns the content of the backup; undefined if it does not exist. Throws `CniError`. */
  read(): Uint8Array | undefined {
    const found = this.#records.read(this.#name)
    const upstreams = found ? undefined : this.#records.read(this.#upstreamName)
    this.#isUpstreams = upstreams !== undefined
    return found ?? upstreams
  }

  /** Replaces the backup atomically, under our own name. Throws `CniError`. */
  write(bytes: Uint8Array): void {
    this.#records.write(this.#name, bytes)
    if (this.#isUpstreams) this.#records.remove(this.#upstreamName)
  }

  /** Reverses `write`: writes the content found by `read`, under the name that it had. Throws `CniError`. */
  putBack(earlier: Uint8Array | undefined): void {
    if (earlier) this.#records.write(this.#isUpstreams ? this.#upstreamName : this.#name, earlier)
    if (!earlier || this.#isUpstreams) this.#records.remove(this.#name)
  }

  /** Removes the backup, under upstream's name if `read` found it there. ENOENT is not an error. Throws `CniError`. */
  remove(): void {
    this.#records.remove(this.#name)
    if (this.#isUpstreams) this.#records.remove(this.#upstreamName)
  }
}

/**
 * Removes the backups of a network's attachments that are not valid. Upstream's files stay: they do not name their
 * network, and their container may be alive. Throws `CniError`.
 */
export function removeStaleBackups(directory: string, network: string, valid: readonly Owner[]): void {
  const keep = new Set(valid.map(recordName))
  const records = new Records(directory, WHAT)
  const failures = new Failures()
  for (const name of records.list()) {
    const own = name.startsWith(".") ? name.slice(1) : name
    if (!own.includes(":") || !isRecordOf(own, network) || keep.has(own)) continue
    const path = records.pathOf(name)
    failures.attempt(`remove the stale backup "${path}"`, () => removeIfThere(path))
  }
  failures.throwIfAny()
}

/** Throws `CniError` if backups could not be written, as determined by `Records.requireWritable`. */
export function requireDirectory(directory: string): void {
  new Records(directory, WHAT).requireWritable()
}
