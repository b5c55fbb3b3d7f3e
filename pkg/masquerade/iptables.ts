import {
  type Content,
  changeTable,
  commentOf,
  containerComment,
  findEverywhere,
  isSameRule,
  narrow,
  printRule,
  type Rule,
  removeEverywhere,
  requirePrograms,
  restoreTable,
  type Variant,
} from "../iptables/mod.ts"
import type { NetlinkSocket } from "../netlink/mod.ts"
import { tableFamily } from "../nftables/mod.ts"
import {
  AF_INET,
  AF_INET6,
  type Cidr,
  CniError,
  Code,
  type Family,
  familyOf,
  formatCidr,
  isCniError,
  type Owner,
  ownerComment,
} from "../types/mod.ts"
import { planAdd, planGc, planRemove } from "./iptables-plan.ts"
import { ANY_CHAIN, type MasqueradeRules, masqueradeRules, masqueradeSearch, PARENT, TABLE } from "./iptables-rules.ts"

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
 * Ends the masquerade of this attachment, found by its names alone, in every place where iptables keeps it, made by
 * either suite; needs no program except for the older tables. `isInUse` says of an address without a mark, "10.1.0.2/32", whether
 * another interface of the container has it; it is asked only when there is one. Nothing there is success. Throws
 * `CniError`.
 */
export function deleteIptablesMasquerade(socket: Nftables, owner: Owner, isInUse: (source: string) => boolean): void {
  const search = masqueradeSearch(owner)
  const [mark, comment] = [ownerComment(owner), containerComment(owner)]
  const isOwnerStale = (found: string) => found === mark
  const isAddressStale = (source: string) => !isInUse(source)
  removeEverywhere(socket, TABLE, search, (found) => {
    const [chain = ""] = found.chains
    return planRemove(found, { chain, comment, isOwnerStale, isAddressStale })
  })
}

/** Ends the masquerade of all attachments to this network but the valid ones. Throws `CniError`. */
export function gcIptablesMasquerade(socket: Nftables, network: string, validOwners: readonly Owner[]): void {
  const search = { chains: ANY_CHAIN, parents: [PARENT] }
  removeEverywhere(socket, TABLE, search, (found) => planGc(found, network, validOwners))
}

/**
 * Checks that the addresses of this attachment are masqueraded by iptables, in one of the places where it keeps rules,
 * made by either suite. Throws `CniError` that tells what was expected and what was found, and `NetlinkError`
 * when the rules cannot be read.
 */
export function checkIptablesMasquerade(
  socket: NetlinkSocket | undefined,
  owner: Owner,
  addresses: readonly Cidr[],
): void {
  const found = findEverywhere(socket, TABLE, masqueradeSearch(owner))
  for (const [family, list] of byFamily(addresses)) {
    const target = masqueradeRules(family, owner, list)
    const faults = found.filter((place) => place.family === family).map((place) => findFault(target, place))
    if (faults.includes(undefined)) continue
    const reason = faults[0] ?? `expected chain ${target.chain} in table ${tableFamily[family]} ${TABLE}; found none`
    throw new CniError(Code.Internal, `Cannot find the masquerade of ${ownerComment(owner)} by iptables: ${reason}`)
  }
}

/** The first rule that is not there, in words; undefined when all are. */
function findFault({ comment, accepts, masquerade, jumps }: MasqueradeRules, { rules }: Content): string | undefined {
  const missing = [...accepts, masquerade, ...jumps].find((each) => !rules.some((rule) => isSameRule(rule, each)))
  return missing && `expected rule "${printRule(missing)}"; found ${describe(rules, missing, comment)}`
}

function describe(rules: readonly Rule[], { chain }: Rule, comment: string): string {
  const similar = rules.filter((rule) => rule.chain === chain && commentOf(rule) === comment)
  return similar.map((rule) => `"${printRule(rule)}"`).join(", ") || "none of the kind"
}

/** The addresses of each family that has any, each once. */
function byFamily(addresses: readonly Cidr[]): [Family, Cidr[]][] {
  const unique = [...new Map(addresses.map((address) => [formatCidr(address), address])).values()]
  return ([AF_INET, AF_INET6] as const).flatMap((family): [Family, Cidr[]][] => {
    const ours = unique.filter(({ ip }) => familyOf(ip) === family)
    return ours.length > 0 ? [[family, ours]] : []
  })
}
