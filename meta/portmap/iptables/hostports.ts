import {
  type Change,
  type Content,
  changeTable,
  chooseVariant,
  findEverywhere,
  type Programs,
  readTable,
  removeEverywhere,
  requirePrograms,
  restoreTable,
} from "../../../pkg/iptables/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import { familyOf, type Owner } from "../../../pkg/types/mod.ts"
import { isGone } from "../gone.ts"
import type { Request } from "../request.ts"
import type { Block } from "./blocks.ts"
import { findFault } from "./check.ts"
import { findAhead, planAdd, planGc, planRemove } from "./plan.ts"
import { anySearch, containerSearch, DNAT, type IptablesOptions, iptablesRules, TABLE } from "./rules.ts"

/** A socket to nf_tables, where iptables keeps its rules nowadays; undefined on a kernel without. */
type Nftables = NetlinkSocket | undefined

/**
 * Maps the ports by upstream's chains and rules, in one `iptables-restore` for each address family. Doing it again ends in
 * the same rules. Answers the addresses of the container's other attachments that have ports of this one. Throws `CniError`
 * that names the holder of a port that is taken, and then nothing has changed.
 */
export function addIptablesHostports(socket: Nftables, request: Request, options: IptablesOptions): Uint8Array[] {
  const variant = chooseVariant(socket)
  const isHolderGone = ({ owner, netns }: Block) => isGone(owner, netns)
  const parts = request.parts.map((part) => {
    const programs = requirePrograms(familyOf(part.address.ip), variant)
    const rules = iptablesRules(request, part, options)
    const plan = (found: Content) => planAdd(rules, found, isHolderGone)
    const found = readTable(programs, TABLE)
    return { programs, plan, changes: plan(found), ahead: findAhead(rules, found) } // a port that is taken shows before any change
  })
  let isChanged = false
  try {
    for (const { programs, plan, changes } of parts) {
      change(programs, plan, changes)
      isChanged = true
    }
  } catch (error) {
    if (isChanged) tryRemove(socket, request.owner)
    throw error
  }
  return parts.flatMap(({ ahead }) => ahead)
}

/** Makes the changes; when they are refused, perhaps because somebody else was quicker, those of a new plan. */
function change(programs: Programs, plan: (found: Content) => Change[], changes: readonly Change[]): void {
  try {
    restoreTable(programs, TABLE, changes)
  } catch {
    changeTable(programs, TABLE, plan)
  }
}

/** That it cannot is no news beside the error that is being thrown. */
function tryRemove(socket: Nftables, owner: Owner): void {
  try {
    removeIptablesHostports(socket, owner)
  } catch {}
}

/**
 * Removes the mappings of this attachment, found by its names alone, wherever iptables keeps them, whoever has made them;
 * needs no program except for the older tables. The chains that all containers share stay. Throws `CniError`.
 */
export function removeIptablesHostports(socket: Nftables, owner: Owner): void {
  removeEverywhere(socket, TABLE, containerSearch(owner), (found) => planRemove(found, owner))
}

/** Removes the mappings of all attachments to this network but the valid ones. Throws `CniError`. */
export function gcIptablesHostports(socket: Nftables, network: string, validOwners: readonly Owner[]): void {
  removeEverywhere(socket, TABLE, anySearch, (found) => planGc(found, network, validOwners))
}

/** Whether iptables maps ports of any container. Throws `CniError`, `NetlinkError`. */
export function hasIptablesHostports(socket: Nftables): boolean {
  return findEverywhere(socket, TABLE, { chains: [DNAT], parents: [] }).some(({ rules }) => rules.length > 0)
}

/** Checks that all is as `addIptablesHostports` has left it. Throws `CniError` that names the first rule that is missing. */
export function checkIptablesHostports(socket: Nftables, request: Request, options: IptablesOptions): void {
  const variant = chooseVariant(socket)
  for (const part of request.parts) {
    const found = readTable(requirePrograms(familyOf(part.address.ip), variant), TABLE)
    const fault = findFault(iptablesRules(request, part, options), found, request.conditions[part.family].length > 0)
    if (fault) throw fault
  }
}
