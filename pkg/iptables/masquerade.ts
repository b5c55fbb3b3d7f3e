import type { NetlinkSocket } from "../netlink/mod.ts"
import { type Cidr, CniError, Code, formatCidr, isCniError, type Owner, ownerComment } from "../types/mod.ts"
import { changeTable } from "./change-table.ts"
import { findEverywhere, narrow, removeEverywhere } from "./everywhere.ts"
import { planGc } from "./masquerade-gc.ts"
import { planAdd, planRemove } from "./masquerade-plan.ts"
import { ANY_CHAIN, masqueradeRules, masqueradeSearch, PARENT, TABLE } from "./masquerade-rules.ts"
import { containerComment } from "./names.ts"
import { requirePrograms, type Variant } from "./programs.ts"
import type { Family } from "./rule.ts"
import { restoreTable } from "./run.ts"

/** A socket to nf_tables; undefined on a kernel without. */
type Nftables = NetlinkSocket | undefined

/**
 * Masquerades what the addresses send beyond their network by upstream's chains and rules, in one `iptables-restore` for
 * each address family. Doing it again changes nothing. Throws `CniError`, and then nothing has changed.
 */
export function addIptablesMasquerade(
  socket: Nftables,
  variant: Variant,
  owner: Owner,
  addresses: readonly Cidr[],
): void {
  const search = masqueradeSearch(owner)
  try {
    const found = findEverywhere(socket, TABLE, search)
    const parts = byFamily(addresses).map(([family, addresses]) => {
      return { programs: requirePrograms(family, variant), rules: masqueradeRules(family, owner, addresses) }
    })
    for (const { programs, rules } of parts) {
      const isNew = !found.some(({ family }) => family === programs.family) // nothing to read: nothing to lose
      if (isNew) restoreTable(programs, TABLE, planAdd(rules, NOTHING, ownerComment(owner)))
      else changeTable(programs, TABLE, (content) => planAdd(rules, narrow(content, search), ownerComment(owner)))
    }
  } catch (cause) {
    undo(socket, owner)
    const what = addresses.map(formatCidr).join(" and ")
    const code = isCniError(cause) ? cause.code : Code.Internal
    throw new CniError(code, `Cannot masquerade ${what} by iptables`, { cause })
  }
}

const NOTHING = { chains: [], rules: [] } as const

/** Takes back what was done for one family. That it cannot is no news beside the error that is being thrown. */
function undo(socket: Nftables, owner: Owner): void {
  try {
    deleteIptablesMasquerade(socket, owner, () => true)
  } catch {}
}

/**
 * Ends the masquerade of this attachment, found by its names alone, wherever iptables keeps it, whoever has made it;
 * needs no program except for the older tables. `isInUse` says of an address without a mark, "10.1.0.2/32", whether
 * another interface of the container has it; it is asked only when there is one. Nothing there is success. Throws
 * `CniError`.
 */
export function deleteIptablesMasquerade(socket: Nftables, owner: Owner, isInUse: (source: string) => boolean): void {
  const search = masqueradeSearch(owner)
  const [mark, comment] = [ownerComment(owner), containerComment(owner)]
  const isOwnerGone = (found: string) => found === mark
  const isAddressGone = (source: string) => !isInUse(source)
  removeEverywhere(socket, TABLE, search, (found) => {
    const [chain = ""] = found.chains
    return planRemove(found, { chain, comment, isOwnerGone, isAddressGone })
  })
}

/** Ends the masquerade of all attachments to this network but the valid ones. Throws `CniError`. */
export function gcIptablesMasquerade(socket: Nftables, network: string, validOwners: readonly Owner[]): void {
  const search = { chains: ANY_CHAIN, parents: [PARENT] }
  removeEverywhere(socket, TABLE, search, (found) => planGc(found, network, validOwners))
}

/** The addresses of each family that has any, each once. */
export function byFamily(addresses: readonly Cidr[]): [Family, Cidr[]][] {
  const unique = [...new Map(addresses.map((address) => [formatCidr(address), address])).values()]
  const families: [Family, Cidr[]][] = [
    ["ip", unique.filter(({ ip }) => ip.length === 4)],
    ["ip6", unique.filter(({ ip }) => ip.length === 16)],
  ]
  return families.filter(([, list]) => list.length > 0)
}
