import { SyscallError } from "../../pkg/libc/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"
import type { Address } from "./address.ts"
import { allocate, type Request } from "./allocate.ts"
import { describeOwner, type Owner } from "./owner.ts"
import type { Session } from "./session.ts"
import type { Store } from "./store.ts"

/**
 * Reserves an address of each range set, all or none; they are on the disk when this returns. Throws `CniError`, with
 * upstream's texts where upstream has one.
 */
export function reserve(store: Store, request: Request): Address[] {
  return saying(`Cannot reserve addresses in "${store.directory}"`, () => {
    for (;;) {
      using lease = store.prepareLease(request.owner)
      const addresses = store.locked((session) => allocate(session, lease, request))
      if (!addresses) continue // somebody has just removed the whole directory
      try {
        store.sync()
      } catch (error) {
        takeBack(store, request.owner)
        throw error
      }
      return addresses
    }
  })
}

/** Part of the way back from another error, which must not be buried. */
function takeBack(store: Store, owner: Owner): void {
  try {
    release(store, owner)
  } catch (error) {
    store.log(`The reservation stays that could not be put on the disk: ${error}`)
  }
}

/**
 * Releases what an owner holds, wherever in the store it is. Nothing to release is success. Answers false when there is no
 * store.
 */
export function release(store: Store, owner: Owner): boolean {
  return saying(`Cannot release the addresses of ${describeOwner(owner)} in "${store.directory}"`, () => {
    const done = store.locked((session) => {
      const holding = session.holding(owner)
      if (holding) session.release(holding)
      return true
    })
    return done ?? false
  })
}

/** Releases one address by hand, with the others of its owner; answers whom it was reserved for, if anybody. */
export function releaseAddress(store: Store, address: string): ReturnType<Session["holder"]> {
  return saying(`Cannot release ${address} in "${store.directory}"`, () =>
    store.locked((session) => {
      const holder = session.holder(address)
      const holding = typeof holder === "object" ? session.ownHolding(holder) : undefined
      if (holding) session.release(holding)
      else if (holder !== undefined) session.free(address)
      return holder
    }),
  )
}

/** Releases what the owners hold that are not to be kept, all that can be; throws one error at the end. */
export function releaseOthers(store: Store, isKept: (owner: Owner) => boolean): void {
  saying(`Cannot clean up "${store.directory}"`, () => {
    const failures = new Failures()
    store.locked((session) => {
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

function saying<T>(message: string, action: () => T): T {
  try {
    return action()
  } catch (error) {
    throw error instanceof SyscallError ? new CniError(Code.Internal, message, { cause: error }) : error
  }
}
