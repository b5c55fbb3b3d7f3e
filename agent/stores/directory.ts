import { watch as watchFiles } from "node:fs"
import { decodeUtf8, encodeUtf8 } from "../../pkg/engine/mod.ts"
import {
  createFile,
  FileDescriptor,
  findFile,
  findStat,
  isErrno,
  lockWithin,
  makeDirectories,
  Open,
  randomHex,
  readDirectory,
  rename,
  setModified,
  syncPath,
  tryLock,
  tryUnlink,
} from "../../pkg/libc/mod.ts"
import type { Kind, Owner, Records } from "../records.ts"
import { type Identity, type Store, type Stored, StoreError, type WatchEvent } from "../store.ts"
import { fileNameOf, type RecordFile, readRecord } from "./directory-files.ts"

const PATIENCE_MS = 10_000
const kinds: readonly Kind[] = ["registry", "block", "node", "fixed", "want"]

/**
 * A store in a directory of one host, for tests and for hosts without a cluster: a file for each record. Every change is made under one
 * lock, and has a number that `revision` keeps: the number first, then the record by one rename. So a process that is killed at
 * any line leaves each record as it was or as it should become, and at most a number that no record has.
 */
export class DirectoryStore implements Store {
  readonly name: string
  readonly #path: string
  readonly #closed = new AbortController()

  /** Makes the directories that are missing. Throws `SyscallError`. */
  constructor(path: string) {
    this.name = `directory "${path}"`
    this.#path = path
    for (const kind of kinds) makeDirectories(`${path}/${kind}`, 0o700)
    this.#locked(() => {
      for (const kind of kinds) removeDrafts(`${path}/${kind}`)
      if (findFile(`${path}/cluster`) === undefined) this.#write("cluster", randomHex(16))
    })
  }

  async identity(): Promise<Identity> {
    return this.#locked(() => ({ cluster: this.#text("cluster") ?? "", revision: this.#revision() }))
  }

  async find<K extends Kind>(kind: K, key: string): Promise<Stored<K> | undefined> {
    return this.#attempt(() => this.#find(kind, key))
  }

  async list<K extends Kind>(kind: K): Promise<Stored<K>[]> {
    return this.#locked(() => [...this.#listed(kind, new Map()).values()])
  }

  async create<K extends Kind>(kind: K, key: string, value: Records[K]): Promise<Stored<K> | undefined> {
    return this.#locked(() => (this.#find(kind, key) ? undefined : this.#put(kind, key, value)))
  }

  async replace<K extends Kind>(stored: Stored<K>, value: Records[K]): Promise<Stored<K> | undefined> {
    return this.#locked(() => (this.#isCurrent(stored) ? this.#put(stored.kind, stored.key, value) : undefined))
  }

  async remove<K extends Kind>(stored: Stored<K>): Promise<boolean> {
    return this.#locked(() => {
      if (!this.#isCurrent(stored)) return false
      const draft = this.#draftOf(stored.kind, this.#nextRevision())
      rename(this.#pathOf(stored.kind, stored.key), draft)
      tryUnlink(draft)
      syncPath(`${this.#path}/${stored.kind}`)
      return true
    })
  }

  async *watch<K extends Kind>(kind: K, signal: AbortSignal): AsyncIterable<WatchEvent<K>> {
    using changes = new Changes(`${this.#path}/${kind}`, AbortSignal.any([signal, this.#closed.signal]))
    let known = this.#locked(() => this.#listed(kind, new Map()))
    yield { type: "all", records: [...known.values()] }
    while (await changes.next()) {
      const before = known
      const now = this.#locked(() => this.#listed(kind, before))
      known = now
      for (const [name, { key }] of before) if (!now.has(name)) yield { type: "removed", key }
      const changed = [...now].flatMap(([name, stored]) =>
        before.get(name)?.version === stored.version ? [] : [stored],
      )
      changed.sort((a, b) => (a.revision < b.revision ? -1 : 1))
      for (const record of changed) yield { type: "put", record }
    }
  }

  async members(): Promise<readonly Owner[]> {
    return (await this.list("node")).map(({ value }) => value.owner)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort()
  }

  #find<K extends Kind>(kind: K, key: string): Stored<K> | undefined {
    return readRecord(kind, this.#pathOf(kind, key))
  }

  /** All records of a kind, by the names of their files. A file is not read again while its time is that of the known change. */
  #listed<K extends Kind>(kind: K, known: ReadonlyMap<string, Stored<K>>): Map<string, Stored<K>> {
    const listing = new Map<string, Stored<K>>()
    for (const name of readDirectory(`${this.#path}/${kind}`)) {
      if (isDraft(name)) continue
      const path = `${this.#path}/${kind}/${name}`
      const before = known.get(name)
      const isKnown = before !== undefined && findStat(path)?.modified === timeOf(before.revision)
      const stored = isKnown ? before : readRecord(kind, path)
      if (stored) listing.set(name, stored)
    }
    return listing
  }

  #isCurrent<K extends Kind>({ kind, key, version }: Stored<K>): boolean {
    return this.#find(kind, key)?.version === version
  }

  #put<K extends Kind>(kind: K, key: string, value: Records[K]): Stored<K> {
    const revision = this.#nextRevision()
    const file: RecordFile<K> = { key, revision: String(revision), value }
    const draft = this.#draftOf(kind, revision)
    createFile(draft, encodeUtf8(JSON.stringify(file)))
    setModified(draft, timeOf(revision))
    this.#finish(draft, this.#pathOf(kind, key))
    return { kind, key, value, version: file.revision, revision }
  }

  /**
   * The file of a change before it has its name, or after it has lost it. Each change has another name: a watch of Bun passes over a second
   * event of one name.
   */
  #draftOf(kind: Kind, revision: bigint): string {
    return `${this.#path}/${kind}/${draftPrefix}${revision}`
  }

  #pathOf(kind: Kind, key: string): string {
    return `${this.#path}/${kind}/${fileNameOf(key)}`
  }

  #revision(): bigint {
    return BigInt(this.#text("revision") ?? 0)
  }

  #nextRevision(): bigint {
    const revision = this.#revision() + 1n
    this.#write("revision", String(revision))
    return revision
  }

  #text(name: string): string | undefined {
    const bytes = findFile(`${this.#path}/${name}`)
    return bytes && decodeUtf8(bytes)
  }

  /** Writes a file whole, or not at all. Under the lock. */
  #write(name: string, text: string): void {
    const draft = `${this.#path}/${draftPrefix}${name}`
    tryUnlink(draft) // of a process that was killed
    createFile(draft, encodeUtf8(text))
    this.#finish(draft, `${this.#path}/${name}`)
  }

  /** Gives a draft its name; both are on the disk afterwards. */
  #finish(draft: string, path: string): void {
    syncPath(draft)
    rename(draft, path)
    syncPath(path.slice(0, path.lastIndexOf("/")))
  }

  #locked<T>(work: () => T): T {
    return this.#attempt(() => {
      using lock = FileDescriptor.open(`${this.#path}/lock`, Open.ReadOnly | Open.Create, 0o600)
      if (lockWithin(PATIENCE_MS, () => tryLock(lock.fd))) return work()
      throw new StoreError(`Cannot lock "${this.#path}/lock": waited for ${PATIENCE_MS / 1000} s`, "refused")
    })
  }

  /** What a full or a broken disk refuses after the rename may have been done: "unknown" is true in each case. */
  #attempt<T>(work: () => T): T {
    try {
      return work()
    } catch (error) {
      if (!isErrno(error)) throw error
      throw new StoreError(`Cannot use ${this.name}: ${error.message}`, "unknown", error)
    }
  }
}

const draftPrefix = ".draft-"

function isDraft(name: string): boolean {
  return name.startsWith(draftPrefix)
}

/** Removes what killed processes have left. Under the lock. */
function removeDrafts(directory: string): void {
  for (const name of readDirectory(directory)) if (isDraft(name)) tryUnlink(`${directory}/${name}`)
}

/** The time of modification that the file of a change gets: its number as seconds, so that stat(2) tells the version. */
function timeOf(revision: bigint): bigint {
  return revision * 1_000_000_000n
}

/** Tells that something in a directory has changed, by inotify. It begins with its construction. */
class Changes implements Disposable {
  readonly #watcher: { close(): void }
  readonly #signal: AbortSignal
  #isChanged = false
  #wake = () => {}
  readonly #end = () => this.#wake()

  constructor(directory: string, signal: AbortSignal) {
    this.#signal = signal
    this.#watcher = watchFiles(directory, () => {
      this.#isChanged = true
      this.#wake()
    })
    signal.addEventListener("abort", this.#end)
  }

  /** Waits for a change since the last call; false once the signal is aborted. */
  async next(): Promise<boolean> {
    while (!this.#isChanged && !this.#signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#wake = resolve
      await promise
    }
    this.#isChanged = false
    return !this.#signal.aborted
  }

  [Symbol.dispose](): void {
    this.#signal.removeEventListener("abort", this.#end)
    this.#watcher.close()
  }
}
