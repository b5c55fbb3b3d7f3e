import { SyscallError } from "../../pkg/libc/mod.ts"
import { CniError, Code, type IpConfig } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"
import { allocate, type Granted, inSession, type Request, type Session } from "./allocate.ts"
import { describeOwner, draftPrefix, formatOwner, isHeldBy, type LeaseOwner } from "./lease-file.ts"
import { formatAddress, parseAddress, type RangeSet, rangeOf } from "./ranges.ts"
import type { Store } from "./store.ts"

/**
 * Reserves an address of each range set, or no address at all. The reservations' files exist when this returns. Throws
 * `CniError`, with upstream's text if upstream has the same error.
 */
export function reserve(store: Store, request: Request): Granted[] {
  return describeErrors(`Cannot reserve addresses in "${store.directory}"`, () => {
    for (;;) {
      using lease = store.prepareLease(request.owner)
      const granted = allocate(store, lease, request)
      if (!granted) continue // the directory was removed in the meantime
      try {
        store.sync()
      } catch (error) {
        takeBack(store, request.owner)
        throw error
      }
      return granted
    }
  })
}

/** Releases an owner's addresses during an undo. Logs errors, because a new error must not hide the first. */
function takeBack(store: Store, owner: LeaseOwner): void {
  try {
    release(store, owner)
  } catch (error) {
    store.log(`Cannot write the reservation to disk; keeping the previous one: ${error}`)
  }
}

/** Releases all of an owner's addresses. Having none is not an error. Returns false if the store does not exist. */
export function release(store: Store, owner: LeaseOwner): boolean {
  return describeErrors(`Cannot release the addresses of ${describeOwner(owner)} in "${store.directory}"`, () => {
    store.removeDrafts((found) => formatOwner(found) === formatOwner(owner), draftPrefix(owner))
    const done = inSession(store, (session) => {
      const holding = session.holding(owner)
      if (holding) session.release(holding)
      return true
    })
    return done ?? false
  })
}

/** Releases an address, and the other addresses of its owner, for `cni ipam release`. Returns the address's owner. */
export function releaseAddress(store: Store, address: string): ReturnType<Session["holder"]> {
  return describeErrors(`Cannot release ${address} in "${store.directory}"`, () =>
    inSession(store, (session) => {
      const holder = session.holder(address)
      const holding = typeof holder === "object" ? session.ownHolding(holder) : undefined
      if (holding) session.release(holding)
      else if (holder !== undefined) session.free(address)
      return holder
    }),
  )
}

/**
 * Releases the reservations whose owner `isKept` rejects. Continues after failures, and throws one error at the end.
 */
export function releaseOthers(store: Store, isKept: (owner: LeaseOwner) => boolean): void {
  describeErrors(`Cannot clean up "${store.directory}"`, () => {
    const failures = new Failures()
    store.removeDrafts((found) => !isKept(found))
    inSession(store, (session) => {
      for (const owner of session.owners()) {
        if (isKept(owner)) continue
        failures.attempt(`release the addresses of ${describeOwner(owner)}`, () => {
          const holding = session.ownHolding(owner)
          if (holding) session.release(holding)
        })
      }
    })
    failures.throwIfAny()
  })
}

function describeErrors<T>(message: string, action: () => T): T {
  try {
    return action()
  } catch (error) {
    throw error instanceof SyscallError ? new CniError(Code.Internal, message, { cause: error }) : error
  }
}

/**
 * Checks that an owner still has its addresses: at least one, and every address of the previous result that is in the
 * range sets. Throws an error that names each address that is not reserved, or is reserved for another owner.
 */
export function checkReservation(
  store: Store,
  owner: LeaseOwner,
  rangeSets: readonly RangeSet[],
  previous: readonly IpConfig[],
): void {
  const expected = previous.flatMap(({ address }) => parseAddress(address.replace(/\/.*/, "")) ?? [])
  const ours = expected.filter((address) => rangeSets.some((set) => rangeOf(set, address))).map(formatAddress)
  const found = describeErrors(`Cannot look up the addresses of ${describeOwner(owner)} in "${store.directory}"`, () =>
    inSession(store, (session) => ({
      holding: session.holding(owner),
      wrong: ours.flatMap((address) => {
        const holder = session.holder(address)
        if (holder === undefined) return [`${address} is not reserved: no file "${store.directory}/${address}"`]
        if (typeof holder === "string") return [`the file "${store.directory}/${address}" is ${holder}`]
        return isHeldBy(holder, owner) ? [] : [`${address} is reserved for ${describeOwner(holder)}`]
      }),
    })),
  )
  const wrong = found?.wrong ?? ours.map((address) => `${address} is not reserved: no directory "${store.directory}"`)
  if (wrong.length === 0 && found?.holding) return
  throw new CniError(Code.Internal, `host-local: Failed to find address added by container ${owner.containerId}`, {
    details: [`expected reservations of ${describeOwner(owner)} in "${store.directory}"`, ...wrong].join("; "),
  })
}
