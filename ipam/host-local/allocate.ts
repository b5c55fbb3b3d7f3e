import { SyscallError } from "../../pkg/libc/mod.ts"
import { AlreadyAttached, CniError, Code } from "../../pkg/types/mod.ts"
import { ifPresent, type StorePlace } from "./files.ts"
import { Index } from "./index.ts"
import { describeOwner, isHeldBy, type LeaseOwner, type PreparedLease, readHolder, toolHint } from "./lease-file.ts"
import { isReclaimable, livenessOf } from "./liveness.ts"
import { nextAddress, readCursor, writeCursor } from "./next-address.ts"
import { type RangeSource, rangeSetsOf } from "./node-ranges.ts"
import {
  type Address,
  formatAddress,
  formatRangeSet,
  isKeptBack,
  isSameAddress,
  parseAddress,
  type Range,
  type RangeSet,
  rangeOf,
} from "./ranges.ts"
import { isSealed, rebuildIndex, seal } from "./rebuild.ts"
import type { LeaseRecord, NamespaceRecord } from "./records.ts"
import type { Store } from "./store.ts"

/**
 * Locks the store and runs `work` on it. Returns `undefined` if the store does not exist. If `work` throws, the seal
 * stays broken, so that the next session reads every file. Throws the errors of `Store.lock`.
 */
export function inSession<T>(store: Store, work: (session: Session) => T): T | undefined {
  using lock = store.lock()
  if (!lock) return undefined
  const session = new Session(store)
  const value = work(session)
  session.close()
  return value
}

/**
 * The owners and addresses in a locked store. Files are written before the index, so a kill in between leaves a broken
 * seal, never a wrong index.
 */
export class Session {
  readonly place: StorePlace
  #index: Index
  #isSealed: boolean

  constructor(place: StorePlace) {
    this.place = place
    this.#isSealed = isSealed(place)
    this.#index = this.#isSealed ? new Index(place.files, `${place.directory}/.index`) : rebuildIndex(place)
  }

  #rebuild(): void {
    this.#index = rebuildIndex(this.place)
    this.#isSealed = false
  }

  /** Reads all reservations again, and returns their owners. */
  owners(): LeaseOwner[] {
    this.#rebuild()
    return this.#index.records.list()
  }

  /** Returns the addresses of an owner, or else those that upstream's old format reserved for its whole container. */
  holding(owner: LeaseOwner): LeaseRecord | undefined {
    return this.ownHolding(owner) ?? this.ownHolding({ containerId: owner.containerId, ifName: "" })
  }

  /** Returns the addresses of exactly this owner. */
  ownHolding(owner: LeaseOwner): LeaseRecord | undefined {
    const record = this.#index.records.get(owner)
    const isHeld = (address: string) => {
      const holder = this.holder(address)
      return holder === "torn" || (holder !== undefined && isHeldBy(holder, owner))
    }
    if (!record || record.addresses.every(isHeld)) return record
    this.#rebuild() // another program changed a file, or removed one while another process held the lock
    return this.#index.records.get(owner)
  }

  holder(address: string): ReturnType<typeof readHolder> {
    return readHolder(this.place.files, this.place.directory, address)
  }

  /** Reserves an address with `lease`. Returns `undefined` if the address is taken. */
  reserve(address: Address, lease: PreparedLease): Reserved | undefined {
    const written = lease.take(`${this.place.directory}/${formatAddress(address)}`)
    if (written !== undefined) this.#isSealed = false
    this.#index.set(address, true)
    return written === undefined ? undefined : { address, written }
  }

  /** Reserves the next free address of a range set. Returns `undefined` if the set is full. */
  reserveFree(set: RangeSet, index: number, lease: PreparedLease): Reserved | undefined {
    const cursor = readCursor(this.place, index)
    for (;;) {
      const free = nextAddress(set, cursor, this.#index)
      if (!free) return undefined
      const reserved = this.reserve(free, lease)
      if (reserved) return reserved
    }
  }

  /** Writes the record of an owner's addresses, after `reserve`. */
  remember(record: LeaseRecord): void {
    this.#isSealed = false
    this.#index.put(record)
  }

  /** Releases an owner's addresses. Throws `SyscallError` if a file cannot be removed. */
  release({ owner, addresses }: LeaseRecord): void {
    for (const address of addresses) this.free(address)
    this.#index.drop(owner)
  }

  free(text: string): void {
    const { files, directory } = this.place
    this.#isSealed = false
    ifPresent(() => files.unlink(`${directory}/${text}`))
    const address = parseAddress(text)
    if (address) this.#index.set(address, false)
  }

  /** Seals the index if it was written. Call this at the end. */
  close(): void {
    if (!this.#isSealed && this.#index.isWritten) this.#index.attempt(() => seal(this.place))
  }
}

export interface Request {
  readonly owner: LeaseOwner
  readonly netns: NamespaceRecord | undefined
  /** The ranges of free addresses. If they are in a file, ADD reads it while the store is locked. */
  readonly ranges: RangeSource
  /** The addresses that the container must get. */
  readonly requested: readonly Address[]
}

/** An address, and the write time of the file that an ADD created for it. */
interface Reserved {
  readonly address: Address
  /** The write time of the file, in nanoseconds since 1970. */
  readonly written: bigint
}

export interface Granted {
  readonly address: Address
  readonly range: Range
}

/**
 * Reserves an address of each range set for an owner, or no address at all. If the owner already has addresses, refuses
 * the owner if its container may exist, and otherwise reserves the same addresses again. Returns `undefined` if the
 * store does not exist. Throws `CniError` 999 with upstream's texts.
 */
export function allocate(store: Store, lease: PreparedLease, request: Request): Granted[] | undefined {
  return inSession(store, (session) => allocateAll(session, lease, request))
}

function allocateAll(session: Session, lease: PreparedLease, request: Request): Granted[] {
  const { owner, netns } = request
  const sets = rangeSetsOf(request.ranges)
  const former = takeFromFormer(session, owner, sets)
  const wanted = [...request.requested]
  const taken: Reserved[] = []
  try {
    for (const set of sets) taken.push(allocateOne({ session, lease, index: taken.length, set, wanted, former, owner }))
    if (wanted.length > 0) {
      throw failure(`failed to allocate all requested IPs: ${wanted.map(formatAddress).join(" ")}`, {
        details: `outside of the range sets: ${sets.map(formatRangeSet).join("; ")}`,
      })
    }
  } catch (error) {
    for (const { address } of taken) giveBack(session, address)
    throw error
  }
  const addresses = taken.map(({ address }) => formatAddress(address))
  const written = taken.map((each) => each.written)
  session.remember({ owner, addresses, bootId: session.place.bootId, written, ...(netns && { netns }) })
  for (const [index, { address }] of taken.entries()) writeCursor(session.place, index, address)
  return taken.map(({ address }, at) => grantedFrom(sets[at] ?? [], address))
}

function grantedFrom(set: RangeSet, address: Address): Granted {
  const range = rangeOf(set, address)
  if (!range) throw new RangeError(`${formatAddress(address)} is outside of its range set`)
  return { address, range }
}

interface Choice {
  readonly session: Session
  readonly lease: PreparedLease
  readonly index: number
  readonly set: RangeSet
  /** The requested addresses that are not yet assigned to a set. */
  readonly wanted: Address[]
  /** The former addresses of a lost owner. */
  readonly former: readonly Address[]
  readonly owner: LeaseOwner
}

function allocateOne(choice: Choice): Reserved {
  const { session, lease, index, set, wanted, former } = choice
  for (const requested of wanted) {
    if (!rangeOf(set, requested)) continue
    wanted.splice(wanted.indexOf(requested), 1)
    return reserveRequested(choice, requested)
  }
  for (const address of former) {
    const reserved = rangeOf(set, address) && !isKeptBack(set, address) ? session.reserve(address, lease) : undefined
    if (reserved) return reserved
  }
  const reserved = reserveOrReclaim(session, () => session.reserveFree(set, index, lease))
  if (reserved) return reserved
  throw failure(
    `failed to allocate for range ${index}: no IP addresses available in range set: ${formatRangeSet(set)}`,
    {
      details: `every address has a file in "${session.place.directory}"; GC, or "cni ipam release", frees those of deleted containers ${toolHint}`,
    },
  )
}

function reserveRequested({ session, lease, index, set, owner }: Choice, address: Address): Reserved {
  const text = formatAddress(address)
  const prefix = `failed to allocate for range ${index}: `
  if (set.some(({ gateway }) => isSameAddress(gateway, address))) {
    throw failure(`${prefix}requested ip ${text} is subnet's gateway`)
  }
  if (isKeptBack(set, address)) throw failure(`${prefix}requested ip ${text} is a network or broadcast address`)
  const reserved = reserveOrReclaim(session, () => session.reserve(address, lease))
  if (reserved) return reserved
  const holder = session.holder(text)
  throw failure(`${prefix}requested IP address ${text} is not available in range set ${formatRangeSet(set)}`, {
    details: `reserved for ${typeof holder === "object" ? describeOwner(holder) : "an unreadable owner"}; requested by ${describeOwner(owner)}`,
  })
}

/** Calls `reserve`. If it finds no address, releases the addresses of dead containers and calls it again. */
function reserveOrReclaim(session: Session, reserve: () => Reserved | undefined): Reserved | undefined {
  const reserved = reserve()
  if (reserved) return reserved
  reclaimDead(session)
  return reserve()
}

/** Releases and returns the addresses of an earlier container with this owner. Throws if that container may exist. */
function takeFromFormer(session: Session, owner: LeaseOwner, sets: readonly RangeSet[]): Address[] {
  const holding = session.holding(owner)
  const [first] = holding?.addresses ?? []
  if (!holding || first === undefined) return []
  if (livenessOf(session.place, holding) === "alive") {
    const address = parseAddress(first)
    const index = sets.findIndex((set) => address && rangeOf(set, address))
    const text = `${first} has been allocated to ${owner.containerId}, duplicate allocation is not allowed`
    throw new AlreadyAttached(Code.Internal, `failed to allocate for range ${Math.max(index, 0)}: ${text}`, {
      details: [
        `${describeOwner(holding.owner)} was already added and not deleted`,
        ...(holding.netns ? [`its network namespace is ${holding.netns.path}`] : []),
      ].join("; "),
    })
  }
  session.place.log(
    `${describeOwner(owner)} was deleted without DEL: its new ADD gets ${holding.addresses.join(", ")} again`,
  )
  session.release(holding)
  return holding.addresses.flatMap((text) => parseAddress(text) ?? [])
}

/** Releases an address during an undo. Logs errors, because a new error must not hide the first. */
function giveBack(session: Session, address: Address): void {
  try {
    session.free(formatAddress(address))
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error
    session.place.log(`Cannot release ${formatAddress(address)}: ${error.message}`)
  }
}

function failure(message: string, options: { details?: string } = {}): CniError {
  return new CniError(Code.Internal, message, options)
}

/**
 * Releases reservations from earlier boots if their containers' namespaces no longer exist, and logs this to stderr.
 * This reads every reservation, so call it only before a refusal. `surveyStore` returns what this would release.
 */
function reclaimDead(session: Session): void {
  for (const owner of session.owners()) {
    const holding = session.ownHolding(owner)
    if (!holding || !isReclaimable(session.place, holding)) continue
    session.release(holding)
    session.place.log(
      `released ${holding.addresses.join(", ")} of ${describeOwner(owner)}, left over from an earlier boot`,
    )
  }
}
