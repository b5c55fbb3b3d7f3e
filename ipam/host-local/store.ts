import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { FileDescriptor, isErrno, Open, randomHex, SyscallError, unlessErrno } from "../../pkg/libc/mod.ts"
import { requireOwn } from "../../pkg/records/mod.ts"
import { type Files, ifPresent, kernelFiles, readSmall, type StorePlace, writeSmall } from "./files.ts"
import { Index } from "./index.ts"
import {
  draftPrefix,
  formatOwner,
  isHeldBy,
  type Owner,
  PreparedLease,
  parseOwner,
  readHolder,
  unnamed,
  withdraw,
} from "./lease-file.ts"
import { isShared, readBootId } from "./liveness.ts"
import { lockStore } from "./lock.ts"
import { type Address, formatAddress, parseAddress } from "./ranges.ts"
import { isSealed, rebuildIndex, seal } from "./rebuild.ts"
import type { LeaseRecord } from "./records.ts"

/** The directory of a network's reservations; the other fields are for tests. */
export interface StoreOptions {
  /** `<dataDir>/<network>` */
  readonly directory: string
  log(line: string): void
  readonly files?: Files
  readonly bootId?: string
  readonly lockDeadlineMs?: number
}

/** The reservations of one network: a directory with a file for each address, in upstream's layout. */
export class Store {
  readonly directory: string
  readonly files: Files
  readonly bootId: string
  readonly log: (line: string) => void
  readonly #drafts: string
  readonly #lockDeadlineMs: number | undefined
  #isOwn = false
  /** Whether other hosts use the store; known from `prepareLease` on. */
  #isShared = true

  constructor({ directory, log, files = kernelFiles, bootId = readBootId(files), lockDeadlineMs }: StoreOptions) {
    this.directory = directory
    this.#drafts = `${directory}/.index/new`
    this.log = log
    this.files = files
    this.bootId = bootId
    this.#lockDeadlineMs = lockDeadlineMs
  }

  /** Makes the directories of the store, like `mkdir -p`. Throws `CniError` when others can change what is in them. */
  create(): void {
    this.#requireOwn()
    this.files.makeDirectories(this.directory)
    this.files.makeDirectories(this.#drafts, 0o700)
    this.#isOwn = false // another program may have made what leads there since
    this.#requireOwn()
  }

  /** Asked once: a store that only root can change stays like that. */
  #requireOwn(): void {
    if (!this.#isOwn) requireOwn(this.directory, ".index")
    this.#isOwn = true
  }

  /**
   * Runs `work` under the store's lock; `undefined` when there is no store. After an error of `work` the seal stays
   * broken, so that the next session reads every file. Throws code 11 when the lock is held for too long, code 5 when
   * users other than root can change the store.
   */
  locked<T>(work: (session: Session) => T): T | undefined {
    this.#requireOwn()
    using lock = lockStore(this.directory, this.#lockDeadlineMs)
    if (!lock) return undefined
    const session = new Session(this)
    const value = work(session)
    session.close()
    return value
  }

  /** Puts the names of the reservations on the disk, where other hosts go by them after this one has failed. */
  sync(): void {
    if (this.#isShared) this.files.syncPath(this.directory)
  }

  /**
   * Writes the file of a reservation. When other hosts use the store the file is synced before it is renamed to the
   * address. Otherwise nothing is synced: a power cut can destroy only reservations of containers that it has ended,
   * see `isEnded`.
   */
  prepareLease(owner: Owner): PreparedLease {
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

  /** Throws `SyscallError` if no reservation could be written now. Leaves nothing, not even killed, but where files need names. */
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
   * Removes the drafts of stale owners, whose ADD was killed, and those without an owner, which were never finished. `prefix` is that of the
   * one owner that is meant. A draft that cannot be removed does no harm.
   */
  removeDrafts(isStale: (owner: Owner) => boolean, prefix = ""): void {
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
      this.log(`Cannot remove what a killed ADD has left in "${this.#drafts}": ${error.message}`)
    }
  }
}

/**
 * A locked store: who holds what, reserving and releasing. Files come first and the index follows, so that a process
 * killed in between leaves a broken seal, never a wrong index.
 */
export class Session {
  readonly place: StorePlace
  #index: Index
  #isSealed: boolean
  readonly #cursors = new Map<number, Address | undefined>()

  constructor(place: StorePlace) {
    this.place = place
    this.#isSealed = isSealed(place)
    this.#index = this.#isSealed ? new Index(place.files, `${place.directory}/.index`) : rebuildIndex(place)
  }

  #rebuild(): void {
    this.#index = rebuildIndex(this.place)
    this.#isSealed = false
  }

  /** Reads all reservations again; returns their owners. */
  owners(): Owner[] {
    this.#rebuild()
    return this.#index.records.list()
  }

  /** The addresses of an owner; without one, those that upstream's old format reserved for its whole container. */
  holding(owner: Owner): LeaseRecord | undefined {
    return this.ownHolding(owner) ?? this.ownHolding({ containerId: owner.containerId, ifName: "" })
  }

  /** The addresses of exactly this owner. */
  ownHolding(owner: Owner): LeaseRecord | undefined {
    const record = this.#index.records.get(owner)
    const isHeld = (address: string) => {
      const holder = this.holder(address)
      return holder === "torn" || (holder !== undefined && isHeldBy(holder, owner))
    }
    if (!record || record.addresses.every(isHeld)) return record
    this.#rebuild() // another program wrote into a file, or removed one just when another process held the lock
    return this.#index.records.get(owner)
  }

  /** The owner of an address. */
  holder(address: string): ReturnType<typeof readHolder> {
    return readHolder(this.place.files, this.place.directory, address)
  }

  /** Makes `lease` the reservation of an address. False when the address is taken. */
  reserve(address: Address, lease: PreparedLease): boolean {
    const isOurs = lease.take(`${this.place.directory}/${formatAddress(address)}`)
    if (isOurs) this.#isSealed = false
    this.#index.set(address, true)
    return isOurs
  }

  /** Writes the record of an owner's addresses; after `reserve`. */
  remember(record: LeaseRecord): void {
    this.#isSealed = false
    this.#index.put(record)
  }

  /** Takes an owner's addresses from it. Throws `SyscallError` when a file cannot be removed. */
  release({ owner, addresses }: LeaseRecord): void {
    for (const address of addresses) this.free(address)
    this.#index.drop(owner)
  }

  /** Removes the reservation of an address. */
  free(text: string): void {
    const { files, directory } = this.place
    this.#isSealed = false
    ifPresent(() => files.unlink(`${directory}/${text}`))
    const address = parseAddress(text)
    if (address) this.#index.set(address, false)
  }

  nextFree(first: Address, last: Address): Address | undefined {
    return this.#index.nextFree(first, last)
  }

  /** The address that was handed out last from range set `index`. */
  cursor(index: number): Address | undefined {
    if (this.#cursors.has(index)) return this.#cursors.get(index)
    const { files, directory } = this.place
    const text = ifPresent(() => readSmall(files, `${directory}/last_reserved_ip.${index}`))
    const address = text === undefined ? undefined : parseAddress(text.trim())
    this.#cursors.set(index, address)
    return address
  }

  setCursor(index: number, address: Address): void {
    const { files, directory } = this.place
    this.#isSealed = false
    this.#cursors.set(index, address)
    writeSmall(files, `${directory}/last_reserved_ip.${index}`, formatAddress(address))
  }

  /** Call it at the end: seals the index, if it was written. */
  close(): void {
    if (!this.#isSealed && this.#index.isWritten) this.#index.attempt(() => seal(this.place))
  }
}
