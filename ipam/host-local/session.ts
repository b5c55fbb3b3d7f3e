import { type Address, formatAddress, parseAddress } from "./address.ts"
import { type Files, ifPresent, readSmall, writeSmall } from "./files.ts"
import { Index } from "./index.ts"
import { type Liveness, livenessOf } from "./liveness.ts"
import { isHeldBy, type Owner } from "./owner.ts"
import { rebuildIndex } from "./rebuild.ts"
import type { LeaseRecord } from "./record.ts"
import { readHolder } from "./scan.ts"
import { isSealed, seal } from "./seal.ts"
import type { PreparedLease } from "./store.ts"

/** What a session works on. */
export interface SessionPlace {
  readonly files: Files
  /** The network's directory, locked by the caller. */
  readonly directory: string
  readonly bootId: string
  log(line: string): void
}

/**
 * A locked store: who holds what, reserving and releasing. Files come first and the index follows, so that a process
 * killed in between leaves a broken seal, never a wrong index.
 */
export class Session {
  readonly place: SessionPlace
  #index: Index
  #isSealed: boolean

  constructor(place: SessionPlace) {
    const { files, directory, bootId } = place
    this.place = place
    this.#isSealed = isSealed(files, directory, bootId)
    this.#index = this.#isSealed ? new Index(files, `${directory}/.index`) : rebuildIndex(place)
  }

  /** Reads everything anew. */
  rebuild(): void {
    this.#index = rebuildIndex(this.place)
    this.#isSealed = false
  }

  /** Reads everything anew; answers who holds something. */
  owners(): Owner[] {
    this.rebuild()
    return this.#index.owners()
  }

  /** What an owner holds, or, if that is nothing, what was reserved in the old form for its whole container. */
  holding(owner: Owner): LeaseRecord | undefined {
    return this.ownHolding(owner) ?? this.ownHolding({ containerId: owner.containerId, ifName: "" })
  }

  /** What exactly this owner holds. */
  ownHolding(owner: Owner): LeaseRecord | undefined {
    const record = this.#index.record(owner)
    if (!record || record.addresses.every((address) => this.#isHeld(address, owner))) return record
    this.rebuild() // somebody wrote into a file, or removed one just when another process held the lock
    return this.#index.record(owner)
  }

  /** Whom an address is reserved for. */
  holder(address: string): ReturnType<typeof readHolder> {
    return readHolder(this.place.files, this.place.directory, address)
  }

  liveness(record: LeaseRecord): Liveness {
    const { files, directory, bootId } = this.place
    return livenessOf(files, directory, record, bootId)
  }

  /** Makes `lease` the reservation of an address. False when the address is taken. */
  reserve(address: Address, lease: PreparedLease): boolean {
    const isOurs = lease.take(`${this.place.directory}/${formatAddress(address)}`)
    if (isOurs) this.#isSealed = false
    this.#index.set(address, true)
    return isOurs
  }

  /** Writes down what an owner has got; after `reserve`. */
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
    const { files, directory } = this.place
    const text = ifPresent(() => readSmall(files, `${directory}/last_reserved_ip.${index}`))
    return text === undefined ? undefined : parseAddress(text.trim())
  }

  setCursor(index: number, address: Address): void {
    const { files, directory } = this.place
    this.#isSealed = false
    writeSmall(files, `${directory}/last_reserved_ip.${index}`, formatAddress(address))
  }

  /** To be called when all is done: declares the index complete, if the disk has it. */
  close(): void {
    const { files, directory, bootId } = this.place
    if (this.#isSealed || !this.#index.isWritten) return
    this.#index.attempt(() => seal(files, directory, bootId))
  }

  #isHeld(address: string, owner: Owner): boolean {
    const holder = this.holder(address)
    return holder !== undefined && (holder === "torn" || isHeldBy(holder, owner))
  }
}
