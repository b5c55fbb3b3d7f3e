import { isRecordOf, Records, recordName } from "../../pkg/records/mod.ts"
import { CniError, Code, type JsonObject, type Owner } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"
import { encodeConfig, tryDecodeConfig } from "./delegate-config.ts"

/** A delegate's configuration that ADD has stored for DEL. */
export interface Kept {
  name: string
  /** Undefined if the file cannot be decoded. */
  config: JsonObject | undefined
}

/**
 * The delegates' configurations that ADD has stored, one per attachment. Files of the reference plugin are found too;
 * it stores one file per container ID, for all networks and interfaces.
 */
export class KeptConfigs {
  readonly #records: Records

  constructor(directory: string) {
    this.#records = new Records(directory, "delegate's configuration", true)
  }

  /** Returns the stored configuration of an attachment; undefined if no file exists. Throws `CniError`. */
  find(owner: Owner): Kept | undefined {
    const own = this.#find(recordName(owner))
    if (own) return own
    const former = this.#find(owner.containerId)
    return former?.config?.name === owner.network ? former : undefined
  }

  #find(name: string): Kept | undefined {
    const bytes = this.#records.read(name)
    return bytes && { name, config: tryDecodeConfig(bytes) }
  }

  /** Stores the delegate's configuration of an attachment atomically. Throws `CniError`. */
  write(owner: Owner, config: JsonObject): void {
    this.#records.write(recordName(owner), encodeConfig(config))
  }

  /** Removes an attachment's stored configuration, and temporary files of a killed ADD. Throws `CniError`. */
  remove(owner: Owner, kept?: Kept): void {
    for (const name of new Set([recordName(owner), kept?.name ?? recordName(owner)])) this.#records.remove(name)
  }

  /** Returns the stored configurations of a network. Throws `CniError`. */
  listOf(network: string): Kept[] {
    return this.#records.list().flatMap((name) => {
      if (name.startsWith(".")) return []
      if (isRecordOf(name, network)) return this.#find(name) ?? []
      const former = name.includes(":") ? undefined : this.#find(name)
      return former?.config?.name === network ? [former] : []
    })
  }

  /** Removes a network's configurations of owners not in `valid`, and files of killed calls. Throws `CniError`. */
  removeStale(network: string, valid: readonly Owner[]): void {
    const keep = new Set(valid.flatMap((owner) => [recordName(owner), owner.containerId]))
    const drafts = this.#records.list().filter((name) => name.startsWith(".") && isRecordOf(name.slice(1), network))
    const names = [...this.listOf(network).map(({ name }) => name), ...drafts.map((name) => name.slice(1))]
    const failures = new Failures()
    for (const name of new Set(names)) {
      if (!keep.has(name)) failures.attempt(`remove "${name}"`, () => this.#records.remove(name))
    }
    failures.throwIfAny()
  }

  /** Throws `CniError` if configurations cannot be stored. */
  requireWritable(): void {
    this.#records.requireWritable()
  }

  unreadable({ name }: Kept): CniError {
    return new CniError(Code.Decoding, `Cannot decode the delegate's configuration "${this.#records.pathOf(name)}"`)
  }
}
