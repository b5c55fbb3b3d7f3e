import { encodeUtf8 } from "../engine/mod.ts"
import { isErrno } from "../libc/mod.ts"
import { CniError, Code, formatCidr, isOwnerOf, type Owner, ownerComment } from "../types/mod.ts"
import { Lines } from "./lines.ts"
import {
  type AddressGroup,
  groupByLayout,
  type MasqueradeAddress,
  type MasqueradeLayout,
  masqueradeLayout,
} from "./masquerade-layout.ts"
import { type MasqueradeState, planAdd, planNew, planRemove } from "./masquerade-plan.ts"
import { findAddresses, findGone, hasMasqueradeRules, listNetworkSets } from "./masquerade-state.ts"
import { hasNftables, type Netfilter } from "./netfilter-socket.ts"
import type { Operation } from "./rule-set.ts"
import { atomically, commit } from "./transaction.ts"

/**
 * Masquerades what the addresses send beyond their network, multicast excepted, all in one transaction:
 * `nft add element ip cni_masquerade containers { 10.1.0.2 comment "network/containerID/ifname" }` and so on, with table,
 * chain, sets and rules where they are missing. Doing it again changes nothing; an address that another owner in this
 * network has left behind becomes this one's, and with another network's, which may have the same addresses on a bridge of
 * its own, it is shared. Throws `CniError`, and then nothing has changed.
 */
export function addMasquerade(socket: Netfilter, owner: Owner, addresses: readonly MasqueradeAddress[]): void {
  const comment = ownerComment(owner)
  const groups = groupByLayout(addresses)
  try {
    if (groups.length === 0 || addToComplete(socket, groups, comment)) return
    atomically(socket, () => {
      const operations: Operation[] = []
      for (const { layout, addresses } of groups) {
        operations.push(...planAdd(layout, readState(socket, layout, addresses), addresses, owner))
      }
      return operations
    })
  } catch (error) {
    const what = `Cannot masquerade ${addresses.map(formatCidr).join(" and ")}`
    if (!isErrno(error, "EINVAL", "EOPNOTSUPP")) throw new CniError(Code.Internal, what, { cause: error })
    throw new CniError(Code.Internal, `${what}: the kernel needs nf_tables with NAT`, { cause: error })
  }
}

/**
 * Adds the elements where everything else is in place, which is nearly always. What it sends depends on nothing that
 * it has read, so others' transactions are no reason to begin again. False when an address is held, when it is the first
 * with its prefix length, or when the table has gone meanwhile.
 */
function addToComplete(socket: Netfilter, groups: readonly AddressGroup[], comment: string): boolean {
  const operations: Operation[] = []
  for (const { layout, addresses } of groups) {
    if (!hasMasqueradeRules(socket, layout, addresses)) return false
    operations.push(...planNew(layout, addresses, comment))
  }
  try {
    commit(socket, operations)
    return true
  } catch (error) {
    if (isErrno(error, "EEXIST", "ENOTEMPTY", "ENOENT")) return false
    throw error
  }
}

function readState(
  socket: Netfilter,
  layout: MasqueradeLayout,
  addresses: readonly MasqueradeAddress[],
): MasqueradeState {
  const lines = new Lines(socket)
  const sets = listNetworkSets(lines, layout)
  const isComplete = hasMasqueradeRules(socket, layout, addresses)
  const ips = addresses.map(({ ip }) => ip)
  return { ...sets, isComplete, held: findAddresses(lines, layout, sets.prefixes, ips) }
}

/**
 * Ends the masquerade of this attachment, found by its name alone, in one transaction. Leaves no table behind when it
 * was the last. Nothing there is success. Throws `CniError`.
 */
export function deleteMasquerade(socket: Netfilter, owner: Owner): void {
  const comment = ownerComment(owner)
  const needles = [encodeUtf8(comment)]
  removeWhere(socket, `Cannot end the masquerade of ${comment}`, (found) => found === comment, needles)
}

/** Ends the masquerade of all attachments to this network but the valid ones. Throws `CniError`. */
export function gcMasquerade(socket: Netfilter, network: string, validOwners: readonly Owner[]): void {
  const valid = new Set(validOwners.map(ownerComment))
  const isGone = (found: string) => isOwnerOf(found, network) && !valid.has(found)
  removeWhere(socket, `Cannot end the masquerade of what is gone from network "${network}"`, isGone)
}

/** Removes what of both families has a comment that `isGone`; all such comments have one of `needles` in them. */
function removeWhere(
  socket: Netfilter,
  what: string,
  isGone: (comment: string) => boolean,
  needles?: readonly Uint8Array[],
): void {
  try {
    atomically(socket, () => {
      const operations: Operation[] = []
      for (const family of ["ip", "ip6"] as const) {
        const layout = masqueradeLayout(family)
        const gone = findGone(socket, layout, isGone, needles)
        if (gone) operations.push(...planRemove(layout, gone))
      }
      return operations
    })
  } catch (error) {
    if (isErrno(error, "EINVAL", "EOPNOTSUPP") && !hasNftables(socket)) return
    throw new CniError(Code.Internal, what, { cause: error })
  }
}
