import { encodeUtf8, sha256 } from "../../../pkg/engine/mod.ts"
import {
  FileDescriptor,
  findFile,
  isErrno,
  makeDirectories,
  Open,
  readDirectory,
  readTextFile,
  rename,
  stat,
  sync,
  syncPath,
  tryLock,
  tryUnlink,
  unlessErrno,
  writeAll,
} from "../../../pkg/libc/mod.ts"
import { requireOwn } from "../../../pkg/records/mod.ts"
import { isJsonObject, type Owner, parseJsonObject } from "../../../pkg/types/mod.ts"
import type { DhcpConfig } from "../config.ts"
import type { ClientState } from "../protocol/types.ts"

/** A network namespace: its path, and an identity that no other existing namespace has. */
export interface NamespaceRecord {
  readonly path: string
  /** The identity: "device:inode". */
  readonly identity: string
}

export type Subject = Readonly<Owner> & Pick<LeaseRecord, "namespace" | "link" | "config">

export type Place = Pick<Subject, "namespace" | "link">

export class NoLinkError extends Error {
  override readonly name = "NoLinkError"
}

export function deletedError({ namespace, link }: Place): NoLinkError {
  return new NoLinkError(`"${link.name}" in "${namespace.path}" was deleted`)
}

export interface LeaseRecord {
  readonly version: 1
  /** The ID of the boot since which the clients' times are counted, in milliseconds (`bootMs`). */
  readonly bootId: string
  /** The time of writing in milliseconds since 1970; `clock` is the same time in milliseconds since the boot. */
  readonly writtenAt: number
  readonly clock: number
  readonly containerId: string
  readonly network: string
  readonly ifName: string
  readonly namespace: NamespaceRecord
  /** The link. A later link of this name has another index. The MAC is that during ADD; the link's may change. */
  readonly link: { readonly name: string; readonly index: number; readonly mac: string }
  readonly config: DhcpConfig
  /**
   * The state: "acquiring" until ADD is answered, "releasing" after DEL. In both the next daemon releases the leases.
   */
  readonly progress: "acquiring" | "held" | "releasing"
  readonly clients: readonly ClientState[]
}

/** Returns the owner of a lease in upstream's format: "CONTAINER/NETWORK/INTERFACE". */
export function keyOf({ containerId, network, ifName }: Owner): string {
  return `${containerId}/${network}/${ifName}`
}

export function readBootId(): string {
  return readTextFile("/proc/sys/kernel/random/boot_id").trim()
}

/** Reports whether a namespace is still at its path. Returns true if stat(2) fails although the path may exist. */
export function namespaceLives({ path, identity }: NamespaceRecord): boolean {
  try {
    const { device, inode } = stat(path)
    return identity === `${device}:${inode}`
  } catch (error) {
    return !isErrno(error, "ENOENT", "ENOTDIR", "ESRCH")
  }
}

const RECORD = /^[0-9a-f]{40}\.json$/
const TEMPORARY = /^\.[0-9a-f]{40}\.json$/

/**
 * The records on disk, one file each. A file is renamed into place, so it is complete even if the process is killed.
 */
export class Journal {
  readonly directory: string

  constructor(directory: string) {
    this.directory = directory
  }

  /**
   * Creates the directory, and takes the lock for writing. Returns undefined if another process has the lock. Throws
   * `SyscallError`, or `CniError` if other users can change the files.
   */
  tryLock(): FileDescriptor | undefined {
    requireOwn(this.directory)
    makeDirectories(this.directory, 0o700)
    requireOwn(this.directory) // another process may have created it in between
    const lock = FileDescriptor.open(`${this.directory}/lock`, Open.ReadWrite | Open.Create, 0o600)
    if (tryLock(lock.fd)) return lock
    lock[Symbol.dispose]()
    return undefined
  }

  get exists(): boolean {
    return unlessErrno(() => readDirectory(this.directory), "ENOENT", "ENOTDIR") !== undefined
  }

  /**
   * Writes a record. With `durable`, the record is on disk when this returns. Without `durable`, a crash of the machine
   * can lose the record; that does no harm, because a crash also ends the containers. Throws `SyscallError`.
   */
  write(record: LeaseRecord, durable: boolean): void {
    const name = fileOf(keyOf(record))
    const temporary = `${this.directory}/.${name}`
    {
      using file = FileDescriptor.open(temporary, Open.WriteOnly | Open.Create | Open.Truncate, 0o600)
      writeAll(file.fd, encodeUtf8(`${JSON.stringify(record)}\n`))
      if (durable) sync(file.fd)
    }
    rename(temporary, `${this.directory}/${name}`)
    if (durable) syncPath(this.directory)
  }

  /** Removes the record of a key if it exists. Throws `SyscallError`. */
  remove(key: string): void {
    tryUnlink(`${this.directory}/${fileOf(key)}`)
  }

  /** Returns all records. A file that is not a record is logged and left unchanged. */
  list(log: (line: string) => void): LeaseRecord[] {
    const records: LeaseRecord[] = []
    for (const name of readDirectory(this.directory)) {
      if (!RECORD.test(name)) continue
      const path = `${this.directory}/${name}`
      const bytes = findFile(path)
      const record = bytes && readRecord(bytes)
      if (record && fileOf(keyOf(record)) === name) records.push(record)
      else if (bytes) log(`Cannot read the lease in "${path}": the file is kept, and the lease expires`)
    }
    return records
  }

  /** Removes the temporary files of killed processes. The caller must have the lock. */
  sweep(): void {
    for (const name of readDirectory(this.directory)) if (TEMPORARY.test(name)) tryUnlink(`${this.directory}/${name}`)
  }
}

function fileOf(key: string): string {
  return `${sha256(key).slice(0, 40)}.json`
}

function readRecord(bytes: Uint8Array): LeaseRecord | undefined {
  try {
    const value = parseJsonObject(bytes, "lease")
    const isWhole =
      value.version === 1 &&
      ["bootId", "containerId", "network", "ifName", "progress"].every((key) => typeof value[key] === "string") &&
      ["writtenAt", "clock"].every((key) => typeof value[key] === "number") &&
      ["namespace", "link", "config"].every((key) => isJsonObject(value[key] ?? null)) &&
      Array.isArray(value.clients) &&
      value.clients.every((client) => isJsonObject(client) && isJsonObject(client.config ?? null))
    return isWhole ? (value as unknown as LeaseRecord) : undefined
  } catch {
    return undefined
  }
}
