import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { FileDescriptor, isErrno, Open, randomHex, SyscallError, unlessErrno } from "../../pkg/libc/mod.ts"
import { requireOwn } from "../../pkg/records/mod.ts"
import { type Files, ifPresent, kernelFiles, readSmall } from "./files.ts"
import {
  draftPrefix,
  formatOwner,
  type LeaseOwner,
  PreparedLease,
  parseOwner,
  unnamed,
  withdraw,
} from "./lease-file.ts"
import { isShared, readBootId } from "./liveness.ts"
import { lockStore } from "./lock.ts"

/** The directory of a network's reservations. The optional fields are for tests. */
export interface StoreOptions {
  /** The directory: `<dataDir>/<network>`. */
  readonly directory: string
  log(line: string): void
  readonly files?: Files
  readonly bootId?: string
  readonly lockDeadlineMs?: number
}

/** The reservations of a network: a directory in upstream's layout with a file for each address, and its lock. */
export class Store {
  readonly directory: string
  readonly files: Files
  readonly bootId: string
  readonly log: (line: string) => void
  readonly #drafts: string
  readonly #lockDeadlineMs: number | undefined
  #isOwn = false
  /** Whether other hosts use the store; true until `prepareLease` finds out. */
  #isShared = true

  constructor({ directory, log, files = kernelFiles, bootId = readBootId(files), lockDeadlineMs }: StoreOptions) {
    this.directory = directory
    this.#drafts = `${directory}/.index/new`
    this.log = log
    this.files = files
    this.bootId = bootId
    this.#lockDeadlineMs = lockDeadlineMs
  }

  /** Creates the store's directories, like `mkdir -p`. Throws `CniError` if other users can change their content. */
  create(): void {
    this.#requireOwn()
    this.files.makeDirectories(this.directory)
    this.files.makeDirectories(this.#drafts, 0o700)
    this.#isOwn = false // another program may have created a parent directory in the meantime
    this.#requireOwn()
  }

  /**
   * Throws if others than root can change the store. Checks only once, because only root can change the outcome.
   */
  #requireOwn(): void {
    if (!this.#isOwn) requireOwn(this.directory, ".index")
    this.#isOwn = true
  }

  /**
   * Locks the store until the descriptor is closed. Returns `undefined` if the store does not exist. Throws code 11
   * after a timeout, and code 5 if users other than root can change the store.
   */
  lock(): FileDescriptor | undefined {
    this.#requireOwn()
    return lockStore(this.directory, this.#lockDeadlineMs)
  }

  /**
   * Syncs the file names if other hosts use the store, because those read the reservations even if this host crashes.
   */
  sync(): void {
    if (this.#isShared) this.files.syncPath(this.directory)
  }

  /**
   * Writes the draft of a reservation. If other hosts use the store, syncs the draft. On a local file system this is
   * unnecessary: a power cut that destroys a reservation also ends its container; see `isEnded`.
   */
  prepareLease(owner: LeaseOwner): PreparedLease {
    this.#requireOwn()
    for (;;) {
      const path = `${this.#drafts}/${draftPrefix(owner)}${randomHex(4)}`
      try {
        this.files.createFile(path, encodeUtf8(formatOwner(owner)))
        this.#isShared = isShared(this.files, this.#drafts)
        if (this.#isShared) this.files.syncPath(path)
        return new PreparedLease(this.files, path, owner, this.#isShared)
      } catch (error) {
        if (isErrno(error, "ENOENT")) this.create()
        else if (!isErrno(error, "EEXIST")) {
          withdraw(this.files, path)
          throw error
        }
      }
    }
  }

  /** Throws `SyscallError` if nothing could be reserved now. With unnamed files, leaves no file even if killed. */
  tryLease(): void {
    this.#requireOwn()
    const owner = { containerId: "status", ifName: "status" }
    const write = (flags: number) => {
      using file = new FileDescriptor(this.files.open(this.#drafts, Open.WriteOnly | flags, 0o600))
      this.files.writeAt(file.fd, encodeUtf8(formatOwner(owner)), 0)
      if (isShared(this.files, this.#drafts)) this.files.sync(file.fd)
      return true
    }
    const tryWrite = (flags: number) => unlessErrno(() => write(flags), "EINVAL", "EISDIR", "EOPNOTSUPP", "ENOENT")
    if (!unnamed.some(tryWrite)) this.prepareLease(owner)[Symbol.dispose]()
  }

  /**
   * Removes drafts of stale owners, left by a killed ADD, and empty drafts without an owner. `prefix` limits this to
   * the drafts of one owner. Only logs a failure, because drafts are harmless.
   */
  removeDrafts(isStale: (owner: LeaseOwner) => boolean, prefix = ""): void {
    this.#requireOwn()
    try {
      for (const name of ifPresent(() => this.files.readDirectory(this.#drafts)) ?? []) {
        if (!name.startsWith(prefix)) continue
        const path = `${this.#drafts}/${name}`
        const holder = ifPresent(() => parseOwner(readSmall(this.files, path)))
        const isLeft = holder === "torn" || (typeof holder === "object" && isStale(holder))
        if (isLeft) ifPresent(() => this.files.unlink(path))
      }
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error
      this.log(`Cannot remove files of a killed ADD from "${this.#drafts}": ${error.message}`)
    }
  }
}
