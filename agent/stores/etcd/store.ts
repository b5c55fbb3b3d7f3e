import { parseRecord } from "../../decode-record.ts"
import type { Kind, Owner, Records } from "../../records.ts"
import { type Identity, type Store, type Stored, StoreError, type WatchEvent } from "../../store.ts"
import { isCompacted } from "./fault.ts"
import { followRecords } from "./follow.ts"
import { type EtcdConfig, Gateway } from "./gateway.ts"
import type { PulseLimits } from "./pulse.ts"
import { type KeyValue, readRange, readTxn, toBase64 } from "./wire.ts"

/** How long things may take, and how much comes at a time. */
export interface EtcdLimits extends PulseLimits {
  /** The records of one page of a list. */
  readonly pageRecords: number
}

const usualLimits: EtcdLimits = { requestMs: 5_000, idleMs: 30_000, silenceMs: 900_000, pageRecords: 500 }

type Page = ReturnType<typeof readRange>

/** Opens the store in etcd 3.4 or newer, by its JSON gateway. Nothing is asked before the first call. */
export function openEtcdStore(config: EtcdConfig, limits: Partial<EtcdLimits> = {}): Store {
  return new EtcdStore(config, { ...usualLimits, ...limits })
}

/** Each record is a key `<prefix><kind>/<key>` with JSON as value. */
class EtcdStore implements Store {
  readonly name: string
  readonly #gateway: Gateway
  readonly #prefix: string
  readonly #limits: EtcdLimits

  constructor(config: EtcdConfig, limits: EtcdLimits) {
    this.#gateway = new Gateway(config, limits.requestMs)
    this.name = `etcd at ${this.#gateway.endpoints.join(", ")}`
    this.#prefix = (config.prefix ?? "/cni/").replace(/\/?$/, "/")
    this.#limits = limits
  }

  async identity(): Promise<Identity> {
    const body = { ...this.#rangeOf("registry"), limit: "1", keys_only: true }
    const { at } = await this.#gateway.ask({
      what: "ask etcd for its revision",
      path: "/v3/kv/range",
      body,
      read: readRange,
    })
    return at
  }

  async find<K extends Kind>(kind: K, key: string): Promise<Stored<K> | undefined> {
    const body = { key: toBase64(this.#pathOf(kind, key)) }
    const what = `read the record "${kind}/${key}" from etcd`
    const { kvs } = await this.#gateway.ask({ what, path: "/v3/kv/range", body, read: readRange })
    return kvs[0] && this.#stored(kind, kvs[0])
  }

  async list<K extends Kind>(kind: K): Promise<Stored<K>[]> {
    return (await this.#listAt(kind)).records
  }

  /** All records, and the revision at which they were so. Begins anew where that was compacted between two pages. */
  async #listAt<K extends Kind>(kind: K, attempts = 3): Promise<{ at: Identity; records: Stored<K>[] }> {
    try {
      return await this.#readPages(kind)
    } catch (error) {
      if (attempts > 1 && error instanceof StoreError && isCompacted(error.cause))
        return this.#listAt(kind, attempts - 1)
      throw error
    }
  }

  async #readPages<K extends Kind>(kind: K): Promise<{ at: Identity; records: Stored<K>[] }> {
    const records: Stored<K>[] = []
    const what = `list the records "${kind}" of etcd`
    const range = this.#rangeOf(kind)
    let key = range.key
    let first: Identity | undefined
    for (;;) {
      const revision = first && { revision: String(first.revision) }
      const body = { ...range, key, limit: String(this.#limits.pageRecords), ...revision }
      const page: Page = await this.#gateway.ask({ what, path: "/v3/kv/range", body, read: readRange })
      const at: Identity = first ?? page.at
      first = at
      if (page.at.cluster !== at.cluster)
        throw new StoreError(`Cannot ${what}: the members are of two clusters`, "refused")
      for (const kv of page.kvs) records.push(this.#stored(kind, kv))
      const last = page.kvs.at(-1)
      if (!page.more || last === undefined) return { at, records }
      key = toBase64(`${last.key}\0`)
    }
  }

  create<K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Stored<K> | undefined> {
    return this.#put("create", kind, key, value, (path) => [
      { key: path, target: "CREATE", result: "EQUAL", create_revision: "0" },
    ])
  }

  replace<K extends Kind>(stored: Stored<K>, value: Records[K]): Promise<Stored<K> | undefined> {
    return this.#put("replace", stored.kind, stored.key, value, (path) => isVersion(path, stored))
  }

  async #put<K extends Kind>(
    verb: string,
    kind: K,
    key: string,
    value: Records[K],
    compare: (path: string) => object[],
  ): Promise<Stored<K> | undefined> {
    const path = toBase64(this.#pathOf(kind, key))
    const text = JSON.stringify(value)
    const change = { request_put: { key: path, value: toBase64(text) } }
    const revision = await this.#transact(`${verb} the record "${kind}/${key}" in etcd`, compare(path), change)
    if (revision === undefined) return undefined
    return { kind, key, value, version: versionOf(revision, text, value), revision }
  }

  async remove<K extends Kind>(stored: Stored<K>): Promise<boolean> {
    const { kind, key } = stored
    const path = toBase64(this.#pathOf(kind, key))
    const change = { request_delete_range: { key: path } }
    const what = `remove the record "${kind}/${key}" from etcd`
    return (await this.#transact(what, isVersion(path, stored), change)) !== undefined
  }

  /** Makes a change if all comparisons hold, and gives the revision of the change. */
  async #transact(what: string, compare: object[], change: object): Promise<bigint | undefined> {
    const body = { compare, success: [change], failure: [] }
    const { succeeded, at } = await this.#gateway.change({ what, path: "/v3/kv/txn", body, read: readTxn })
    return succeeded ? at.revision : undefined
  }

  watch<K extends Kind>(kind: K, signal: AbortSignal): AsyncIterable<WatchEvent<K>> {
    const { key, end } = this.#pathsOf(kind)
    const source = {
      kind,
      range: { key, end },
      list: () => this.#listAt(kind),
      keyOf: (path: string) => path.slice(key.length),
      decode: (kv: KeyValue) => this.#stored(kind, kv),
    }
    return followRecords(this.#gateway, source, this.#limits, signal)
  }

  /** The records of nodes: an operator removes that of a node that is gone. */
  async members(): Promise<readonly Owner[]> {
    return (await this.list("node")).map(({ value }) => value.owner)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#gateway[Symbol.dispose]()
  }

  /** The keys of a kind begin with `key`, and all of them are before `end`: "0" is the character after "/". */
  #pathsOf(kind: Kind): { key: string; end: string } {
    return { key: `${this.#prefix}${kind}/`, end: `${this.#prefix}${kind}0` }
  }

  /** The members of a range request that say which keys. */
  #rangeOf(kind: Kind): { key: string; range_end: string } {
    const { key, end } = this.#pathsOf(kind)
    return { key: toBase64(key), range_end: toBase64(end) }
  }

  #pathOf(kind: Kind, key: string): string {
    return `${this.#pathsOf(kind).key}${key}`
  }

  #stored<K extends Kind>(kind: K, { key: path, value: text, modRevision }: KeyValue): Stored<K> {
    const key = path.slice(this.#pathsOf(kind).key.length)
    const value = parseRecord(kind, key, text)
    return { kind, key, value, version: versionOf(modRevision, text, value), revision: modRevision }
  }
}

/**
 * The version of a record: its revision and its text, since a store that was restored from a backup uses revisions again. Of a text that the
 * value gives again a digest is enough: an agent keeps each record of the cluster in memory.
 */
function versionOf(revision: bigint, text: string, value: unknown): string {
  return `${revision} ${JSON.stringify(value) === text ? Bun.hash(text).toString(36) : text}`
}

/** The comparisons that hold while the key `path`, in base64, is the record that was read. */
function isVersion(path: string, { version, value }: Stored<Kind>): object[] {
  const space = version.indexOf(" ")
  const [mod_revision, rest] = [version.slice(0, space), version.slice(space + 1)]
  const text = /^[0-9a-z]+$/.test(rest) ? JSON.stringify(value) : rest
  return [
    { key: path, target: "MOD", result: "EQUAL", mod_revision },
    { key: path, target: "VALUE", result: "EQUAL", value: toBase64(text) },
  ]
}
