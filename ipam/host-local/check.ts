import { CniError, Code, type IpConfig } from "../../pkg/types/mod.ts"
import { formatAddress, parseAddress } from "./address.ts"
import { describeOwner, isHeldBy, type Owner } from "./owner.ts"
import { type RangeSet, rangeOf } from "./ranges.ts"
import type { Store } from "./store.ts"

/**
 * Whether an owner still holds what it was given: at least one address, and every address of the previous result that
 * lies in the range sets. Throws an error that names each address that is missing, or whom it is reserved for.
 */
export function checkReservation(
  store: Store,
  owner: Owner,
  rangeSets: readonly RangeSet[],
  previous: readonly IpConfig[],
): void {
  const expected = previous.flatMap(({ address }) => parseAddress(address.replace(/\/.*/, "")) ?? [])
  const ours = expected.filter((address) => rangeSets.some((set) => rangeOf(set, address))).map(formatAddress)
  const found = store.locked((session) => ({
    holding: session.holding(owner),
    wrong: ours.flatMap((address) => {
      const holder = session.holder(address)
      if (holder === undefined) return [`${address} is not reserved: no file "${store.directory}/${address}"`]
      if (typeof holder === "string") return [`the file "${store.directory}/${address}" is ${holder}`]
      return isHeldBy(holder, owner) ? [] : [`${address} is reserved for ${describeOwner(holder)}`]
    }),
  }))
  const wrong = found?.wrong ?? ours.map((address) => `${address} is not reserved: no directory "${store.directory}"`)
  if (wrong.length === 0 && found?.holding) return
  throw new CniError(Code.Internal, `host-local: Failed to find address added by container ${owner.containerId}`, {
    details: [`expected reservations of ${describeOwner(owner)} in "${store.directory}"`, ...wrong].join("; "),
  })
}
