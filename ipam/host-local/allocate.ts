import { SyscallError } from "../../pkg/libc/mod.ts"
import { AlreadyAttached, CniError, Code, messageOf } from "../../pkg/types/mod.ts"
import { describeOwner, type Owner, type PreparedLease, toolHint } from "./lease-file.ts"
import { isReclaimable, livenessOf } from "./liveness.ts"
import {
  type Address,
  formatAddress,
  formatRangeSet,
  isBetween,
  isKeptBack,
  isSameAddress,
  offset,
  parseAddress,
  type Range,
  type RangeSet,
  rangeOf,
} from "./ranges.ts"
import type { NamespaceRecord } from "./records.ts"
import type { Session } from "./store.ts"

/** The request of an ADD. */
export interface Request {
  readonly owner: Owner
  readonly netns: NamespaceRecord | undefined
  /** The range sets to take from, which are asked for under the store's lock. */
  readonly ranges: () => readonly RangeSet[]
  /** Addresses that it must get. */
  readonly requested: readonly Address[]
}

/** An address that an ADD has got, and the range that it is of. */
export interface Granted {
  readonly address: Address
  readonly range: Range
}

/**
 * Reserves an address of each range set for an owner, or no address. An owner that already has addresses is refused
 * while it may be alive; else it gets the same addresses again. Throws `CniError` 999 with upstream's texts.
 */
export function allocate(session: Session, lease: PreparedLease, request: Request): Granted[] {
  const { owner, netns } = request
  const sets = request.ranges()
  const former = takeFromFormer(session, owner, sets)
  const wanted = [...request.requested]
  const taken: Address[] = []
  try {
    for (const set of sets) taken.push(allocateOne({ session, lease, index: taken.length, set, wanted, former, owner }))
    if (wanted.length > 0) {
      throw failure(`failed to allocate all requested IPs: ${wanted.map(formatAddress).join(" ")}`, {
        details: `outside of the range sets: ${sets.map(formatRangeSet).join("; ")}`,
      })
    }
  } catch (error) {
    for (const address of taken) giveBack(session, address)
    throw error
  }
  const addresses: string[] = []
  const written: bigint[] = []
  for (const address of taken) {
    addresses.push(formatAddress(address))
    written.push(lease.writtenAs(`${session.place.directory}/${formatAddress(address)}`))
  }
  session.remember({ owner, addresses, bootId: session.place.bootId, written, ...(netns && { netns }) })
  let index = 0
  for (const address of taken) moveCursor(session, index++, address)
  return taken.map((address, at) => grantedFrom(sets[at] ?? [], address))
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
  /** The requested addresses that no set has taken yet. */
  readonly wanted: Address[]
  /** The addresses that the owner had before it was lost. */
  readonly former: readonly Address[]
  readonly owner: Owner
}

function allocateOne(choice: Choice): Address {
  const { session, lease, index, set, wanted, former } = choice
  for (const requested of wanted) {
    if (!rangeOf(set, requested)) continue
    wanted.splice(wanted.indexOf(requested), 1)
    return reserveRequested(choice, requested)
  }
  for (const again of former) {
    if (rangeOf(set, again) && !isKeptBack(set, again) && session.reserve(again, lease)) return again
  }
  const found = findFree(choice) ?? afterReclaiming(session, () => findFree(choice))
  if (found) return found
  throw failure(
    `failed to allocate for range ${index}: no IP addresses available in range set: ${formatRangeSet(set)}`,
    {
      details: `every address has a file in "${session.place.directory}"; GC, or "cni ipam release", frees those of containers that are gone ${toolHint}`,
    },
  )
}

function reserveRequested({ session, lease, index, set, owner }: Choice, address: Address): Address {
  const text = formatAddress(address)
  const prefix = `failed to allocate for range ${index}: `
  if (set.some(({ gateway }) => isSameAddress(gateway, address))) {
    throw failure(`${prefix}requested ip ${text} is subnet's gateway`)
  }
  if (isKeptBack(set, address)) throw failure(`${prefix}requested ip ${text} is a network or broadcast address`)
  const take = () => session.reserve(address, lease)
  if (take() || afterReclaiming(session, take)) return address
  const holder = session.holder(text)
  throw failure(`${prefix}requested IP address ${text} is not available in range set ${formatRangeSet(set)}`, {
    details: `reserved for ${typeof holder === "object" ? describeOwner(holder) : "an owner that cannot be read"}; asked for by ${describeOwner(owner)}`,
  })
}

/** Tries once more, with what the dead held and with an index that is right in any case. */
function afterReclaiming<T>(session: Session, attempt: () => T): T {
  reclaimDead(session)
  return attempt()
}

function findFree({ session, lease, index, set }: Choice): Address | undefined {
  const cursor = session.cursor(index)
  for (;;) {
    const free = nextAddress(set, cursor, (first, last) => session.nextFree(first, last))
    if (!free || session.reserve(free, lease)) return free
  }
}

/**
 * Releases the addresses of a former container with the same owner, and returns them. Throws when that container may be
 * alive.
 */
function takeFromFormer(session: Session, owner: Owner, sets: readonly RangeSet[]): Address[] {
  const holding = session.holding(owner)
  const [first] = holding?.addresses ?? []
  if (!holding || first === undefined) return []
  if (livenessOf(session.place, holding) === "alive") {
    const address = parseAddress(first)
    const index = sets.findIndex((set) => address && rangeOf(set, address))
    const text = `${first} has been allocated to ${owner.containerId}, duplicate allocation is not allowed`
    throw new AlreadyAttached(Code.Internal, `failed to allocate for range ${Math.max(index, 0)}: ${text}`, {
      details: [
        `${describeOwner(holding.owner)} was added before and not deleted`,
        ...(holding.netns ? [`its network namespace is ${holding.netns.path}`] : []),
      ].join("; "),
    })
  }
  session.place.log(`${describeOwner(owner)} is gone without DEL: it gets ${holding.addresses.join(", ")} again`)
  session.release(holding)
  return holding.addresses.flatMap((text) => parseAddress(text) ?? [])
}

/** Part of the undo after another error, which must not be hidden by a new one. */
function giveBack(session: Session, address: Address): void {
  try {
    session.free(formatAddress(address))
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error
    session.place.log(`Cannot release ${formatAddress(address)}: ${error.message}`)
  }
}

/** The cursor is a courtesy: without it, addresses are only handed out again sooner. */
function moveCursor(session: Session, index: number, address: Address): void {
  try {
    session.setCursor(index, address)
  } catch (error) {
    session.place.log(`Cannot note the last reserved address: ${messageOf(error)}`)
  }
}

function failure(message: string, options: { details?: string } = {}): CniError {
  return new CniError(Code.Internal, message, options)
}

/**
 * The address to hand out next: the first free one after the cursor, which is the address handed out last, around
 * through all ranges of the set and up to the cursor itself. So a freed address is reused as late as possible. Without
 * a cursor, or with one outside of the set, the search begins at the first range's start. `undefined` when the set is
 * full. `nextFree` returns the first free address of two and those between.
 */
export function nextAddress(
  set: RangeSet,
  cursor: Address | undefined,
  nextFree: (first: Address, last: Address) => Address | undefined,
): Address | undefined {
  for (const [first, last] of walk(set, cursor)) {
    for (let at = first; at.value <= last.value; ) {
      const free = nextFree(at, last)
      if (!free) break
      if (!isKeptBack(set, free)) return free
      at = offset(free, 1n)
    }
  }
  return undefined
}

/** The set as stretches of addresses, in the order in which they are tried. A stretch may be empty. */
export function walk(set: RangeSet, cursor: Address | undefined): [first: Address, last: Address][] {
  const before: [Address, Address][] = []
  const after: [Address, Address][] = []
  let current: Range | undefined
  for (const range of set) {
    if (!current && cursor && isBetween(cursor, range.start, range.end)) current = range
    else (current ? after : before).push([range.start, range.end])
  }
  if (!cursor || !current) return before
  return [[offset(cursor, 1n), current.end], ...after, ...before, [current.start, cursor]]
}

/**
 * Releases the reservations of containers of earlier boots whose namespaces no longer exist; logs them on stderr. It
 * reads every reservation, and is called only before an ADD would be refused. `surveyStore` lists what it would
 * release.
 */
function reclaimDead(session: Session): void {
  for (const owner of session.owners()) {
    const holding = session.ownHolding(owner)
    if (!holding || !isReclaimable(session.place, holding)) continue
    session.release(holding)
    session.place.log(
      `released ${holding.addresses.join(", ")} of ${describeOwner(owner)}, which an earlier boot has ended`,
    )
  }
}
