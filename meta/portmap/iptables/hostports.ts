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
import type { Owner } from "../../../pkg/types/mod.ts"
import type { PortmapSpec } from "../mapping.ts"
import { isHolderGone } from "../port-holder.ts"
import { type AttachmentRules, findAhead, findMissing, planAdd, planDelete, planGc } from "./plan.ts"
import { anySearch, containerSearch, DNAT, type IptablesOptions, iptablesRules, TABLE } from "./rules.ts"

/** A socket to nf_tables, where iptables keeps its rules nowadays; undefined on a kernel without. */
type Nftables = NetlinkSocket | undefined

/**
 * Maps the ports by upstream's chains and rules, in one `iptables-restore` for each address family. Doing it again ends in
 * the same rules. Returns the addresses of the container's other attachments that have ports of this one. Throws `CniError`
 * that names the holder of a port that is taken, and then nothing has changed.
 */
export function addIptablesHostports(socket: Nftables, spec: PortmapSpec, options: IptablesOptions): Uint8Array[] {
  const variant = chooseVariant(socket)
  const isGone = ({ owner, netns }: AttachmentRules) => isHolderGone(owner, netns)
  const families = spec.addresses.map((mapped) => {
    const programs = requirePrograms(mapped.family, variant)
    const rules = iptablesRules(spec, mapped, options)
    const plan = (found: Content) => planAdd(rules, found, isGone)
    const found = readTable(programs, TABLE)
    return { programs, plan, changes: plan(found), ahead: findAhead(rules, found) } // a port that is taken shows before any change
  })
  let isChanged = false
  try {
    for (const { programs, plan, changes } of families) {
      change(programs, plan, changes)
      isChanged = true
    }
  } catch (error) {
    if (isChanged) tryDelete(socket, spec.owner)
    throw error
  }
  return families.flatMap(({ ahead }) => ahead)
}

/** Makes the changes; when they are refused, perhaps because others were quicker, those of a new plan. */
function change(programs: Programs, plan: (found: Content) => Change[], changes: readonly Change[]): void {
  try {
    restoreTable(programs, TABLE, changes)
  } catch {
    changeTable(programs, TABLE, plan)
  }
}

/** That it cannot is no news beside the error that is being thrown. */
function tryDelete(socket: Nftables, owner: Owner): void {
  try {
    deleteIptablesHostports(socket, owner)
  } catch {}
}

/**
 * Deletes the mappings of this attachment, found by its names alone, wherever iptables keeps them, made by this suite or
 * upstream's; needs no program except for the older tables. The chains that all containers share stay. Throws `CniError`.
 */
export function deleteIptablesHostports(socket: Nftables, owner: Owner): void {
  removeEverywhere(socket, TABLE, containerSearch(owner), (found) => planDelete(found, owner))
}

/** Deletes the mappings of all attachments to this network but the valid ones. Throws `CniError`. */
export function gcIptablesHostports(socket: Nftables, network: string, validOwners: readonly Owner[]): void {
  removeEverywhere(socket, TABLE, anySearch, (found) => planGc(found, network, validOwners))
}

/** Whether iptables maps ports of any container. Throws `CniError`, `NetlinkError`. */
export function hasIptablesHostports(socket: Nftables): boolean {
  return findEverywhere(socket, TABLE, { chains: [DNAT], parents: [] }).some(({ rules }) => rules.length > 0)
}

/** Checks that all is as `addIptablesHostports` has left it. Throws `CniError` that names the first rule that is missing. */
export function checkIptablesHostports(socket: Nftables, spec: PortmapSpec, options: IptablesOptions): void {
  const variant = chooseVariant(socket)
  for (const mapped of spec.addresses) {
    const found = readTable(requirePrograms(mapped.family, variant), TABLE)
    const hasConditions = spec.conditions[mapped.family].length > 0
    const missing = findMissing(iptablesRules(spec, mapped, options), found, hasConditions)
    if (missing) throw missing
  }
}
