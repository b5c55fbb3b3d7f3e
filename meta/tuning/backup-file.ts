import { isRecordOf, Records, recordName, removeIfThere } from "../../pkg/records/mod.ts"
import type { Owner } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"

/** The name for these files in error messages. */
const WHAT = "backup"

/**
 * The file with the backup of one attachment. Upstream's plugin uses another file name, which is not unique: container
 * "a" with interface "b_c" has the same name as container "a_b" with interface "c", and the network is not part of it.
 * Upstream's file is read only if no file with our own name exists.
 */
export class BackupFile {
  readonly #records: Records
  readonly #name: string
  readonly #upstreamName: string
  /** Whether `read` found upstream's file. */
  #isUpstreams = false

  constructor(directory: string, owner: Owner) {
    this.#records = new Records(directory, WHAT)
    this.#name = recordName(owner)
    this.#upstreamName = `${owner.containerId}_${owner.ifName}.json`
  }

  /** Returns the content of the backup; undefined if there is no file. Throws `CniError`. */
  read(): Uint8Array | undefined {
    const found = this.#records.read(this.#name)
    const upstreams = found ? undefined : this.#records.read(this.#upstreamName)
    this.#isUpstreams = upstreams !== undefined
    return found ?? upstreams
  }

  /** Replaces the backup atomically, under our own file name. Throws `CniError`. */
  write(bytes: Uint8Array): void {
    this.#records.write(this.#name, bytes)
    if (this.#isUpstreams) this.#records.remove(this.#upstreamName)
  }

  /** Undoes `write`: restores the content found by `read` under its former file name. Throws `CniError`. */
  putBack(earlier: Uint8Array | undefined): void {
    if (earlier) this.#records.write(this.#isUpstreams ? this.#upstreamName : this.#name, earlier)
    if (!earlier || this.#isUpstreams) this.#records.remove(this.#name)
  }

  /** Removes the backup, and upstream's file if `read` found that file. ENOENT is not an error. Throws `CniError`. */
  remove(): void {
    this.#records.remove(this.#name)
    if (this.#isUpstreams) this.#records.remove(this.#upstreamName)
  }
}

/**
 * Removes the backups of a network's attachments that are not in `valid`. Upstream's files stay, because they do not
 * name their network, so their container may still be running. Throws `CniError`.
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

/** Checks that backups can be written, see `Records.requireWritable`. Throws `CniError`. */
export function requireDirectory(directory: string): void {
  new Records(directory, WHAT).requireWritable()
}
