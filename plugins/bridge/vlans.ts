import type { VlanRange } from "../../pkg/netlink/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"

/** The valid VLAN IDs of 802.1Q. 0 means "no VLAN" and 4095 is reserved. */
const FIRST = 1
const LAST = 4094

/** An entry of `vlanTrunk`: one VLAN, a range of VLANs, or both. */
export interface TrunkEntry {
  id?: number | undefined
  minID?: number | undefined
  maxID?: number | undefined
}

export interface VlanConfig {
  /** The VLAN of untagged frames; 0 for none. */
  native: number
  /** The VLANs of tagged frames, sorted, without duplicates; undefined if `vlanTrunk` is missing. */
  trunk: readonly VlanRange[] | undefined
  /** Whether the port stays in the bridge's default VLAN. */
  preserveDefault: boolean
}

/** Parses `vlan` and `vlanTrunk`. Throws code 7 with upstream's messages, because other programs compare them. */
export function parseVlans(
  vlan: number,
  trunk: readonly (TrunkEntry | null)[] | undefined,
  preserveDefault: boolean,
): VlanConfig {
  if (vlan < 0 || vlan > LAST) throw refuse(`invalid VLAN ID ${vlan} (must be between 0 and ${LAST})`)
  return { native: vlan, trunk: trunk && joinRanges(trunk.flatMap(readEntry)), preserveDefault }
}

/** Reports whether the bridge must filter VLANs, as even an empty trunk requires. */
export function needsFiltering({ native, trunk }: VlanConfig): boolean {
  return native !== 0 || trunk !== undefined
}

/**
 * Returns the VLANs of a port, the native one first, which is `vlan`, or 1 for a trunk without `vlan`. The native VLAN
 * is untagged even if the trunk contains it. Returns none if neither is configured: the port then keeps the bridge's
 * default VLAN.
 */
export function planPort({ native, trunk = [] }: VlanConfig): VlanRange[] {
  if (native === 0 && trunk.length === 0) return []
  const id = native === 0 ? 1 : native
  return [{ first: id, last: id, pvid: true, untagged: true }, ...trunk.flatMap((range) => without(range, id))]
}

/** Returns the VLANs to remove from a new port: the bridge's default VLAN `id` unless `plan` has it; 0 means none. */
export function planDefault({ preserveDefault }: VlanConfig, plan: readonly VlanRange[], id: number): VlanRange[] {
  if (preserveDefault || plan.length === 0 || id === 0) return []
  return plan.some(({ first, last }) => first <= id && id <= last) ? [] : [{ first: id, last: id }]
}

/** Parses an entry of `vlanTrunk`. Returns none for `null` and for an empty entry. */
function readEntry(entry: TrunkEntry | null, index: number): VlanRange[] {
  const { id, minID, maxID } = entry ?? {}
  const details = `it is "vlanTrunk[${index}]"; VLANs are ${FIRST} to ${LAST}`
  const ranges: VlanRange[] = []
  if (minID !== undefined || maxID !== undefined) {
    const both = "minID and maxID should be configured simultaneously"
    if (minID === undefined) throw refuse(`${both}, minID is missing`, details)
    if (maxID === undefined) throw refuse(`${both}, maxID is missing`, details)
    if (!isVlan(minID)) throw refuse("incorrect trunk minID parameter", details)
    if (!isVlan(maxID)) throw refuse("incorrect trunk maxID parameter", details)
    if (maxID < minID) throw refuse("minID is greater than maxID in trunk parameter", details)
    ranges.push({ first: minID, last: maxID })
  }
  if (id !== undefined) {
    if (!isVlan(id)) throw refuse("incorrect trunk id parameter", details)
    ranges.push({ first: id, last: id })
  }
  return ranges
}

/** Sorts ranges and joins those that overlap or are adjacent. */
function joinRanges(ranges: VlanRange[]): VlanRange[] {
  const joined: VlanRange[] = []
  for (const { first, last } of ranges.sort((a, b) => a.first - b.first)) {
    const before = joined.at(-1)
    if (before && first <= before.last + 1) before.last = Math.max(before.last, last)
    else joined.push({ first, last })
  }
  return joined
}

/** Returns the parts of a range before and after one of its VLANs. */
function without({ first, last }: VlanRange, id: number): VlanRange[] {
  if (id < first || id > last) return [{ first, last }]
  return [
    { first, last: id - 1 },
    { first: id + 1, last },
  ].filter((range) => range.first <= range.last)
}

function isVlan(id: number): boolean {
  return id >= FIRST && id <= LAST
}

function refuse(message: string, details = ""): CniError {
  return new CniError(Code.InvalidNetworkConfig, message, { details })
}
