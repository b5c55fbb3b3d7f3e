import {
  changeTable,
  chooseVariant,
  findEverywhere,
  type Programs,
  readTable,
  removeEverywhere,
  requirePrograms,
} from "../../../pkg/iptables/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import { getGeneration } from "../../../pkg/nftables/mod.ts"
import {
  AF_INET,
  AF_INET6,
  CniError,
  Code,
  type Family,
  familyOf,
  type Owner,
  ownerComment,
  staleOf,
} from "../../../pkg/types/mod.ts"
import type { FirewallSpec } from "../spec.ts"
import { findMissing, type IptablesSpec, planAdd, planRemove } from "./plan.ts"
import { firewallSearch, hostOf, labelsOf, readLabel, TABLE } from "./rules.ts"

/** Each time, another caller has removed a rule that it shares with the attachment. */
const ATTEMPTS = 10

/** A socket to nf_tables, where iptables keeps its rules nowadays; undefined on a kernel without. */
type Nftables = NetlinkSocket | undefined

/** What an attachment needs of each family that it has addresses of; the other's program may be missing. */
function iptablesSpecs(spec: FirewallSpec): { family: Family; rules: IptablesSpec }[] {
  const { owner, policy, link, adminChain, addresses } = spec
  const common = { network: owner.network, owner: ownerComment(owner), adminChain, policy, bridge: link?.bridge }
  return ([AF_INET, AF_INET6] as const)
    .filter((family) => addresses.some((ip) => familyOf(ip) === family))
    .map((family) => ({ family, rules: { ...common, labels: labelsOf(spec, family) } }))
}

/**
 * Lets an attachment's traffic through and applies its policy by upstream's chains and rules, in one `iptables-restore` for each
 * address family. Doing it again ends in the same rules. Throws `CniError`, and then nothing of the attachment's is there.
 */
export function addIptablesFirewall(socket: Nftables, spec: FirewallSpec): void {
  const variant = chooseVariant(socket)
  const families = iptablesSpecs(spec).map(({ family, rules }) => ({
    rules,
    programs: requirePrograms(family, variant),
  }))
  try {
    for (const { programs, rules } of families) addRules(variant === "default" ? socket : undefined, programs, rules)
  } catch (error) {
    tryDelete(socket, spec.owner)
    throw error
  }
}

/**
 * Adds an attachment's rules to a table. Between the reading and the change, DEL of another attachment may remove a rule that was
 * there for both: so the table is changed again until nothing is missing. Nothing is where the generation of the rule set, of which
 * `netfilter` tells if iptables keeps its rules there, says that no other change came in between.
 */
function addRules(netfilter: Nftables, programs: Programs, rules: IptablesSpec): void {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const before = netfilter && getGeneration(netfilter)
    changeTable(programs, TABLE, (found) => planAdd(rules, found))
    const isOnlyChange = netfilter && before !== undefined && getGeneration(netfilter) === before + 1
    if (isOnlyChange || findMissing(rules, readTable(programs, TABLE)) === undefined) return
  }
  throw new CniError(Code.TryAgainLater, `Cannot change table ${TABLE}: others keep changing it`)
}

/** That it cannot is no news beside the error that is being thrown. */
function tryDelete(socket: Nftables, owner: Owner): void {
  try {
    deleteIptablesFirewall(socket, owner, [], undefined)
  } catch {}
}

/**
 * Deletes an attachment's rules, found by their labels or, of what upstream has made, by its addresses, wherever iptables keeps
 * them; the policy of its bridge with the last that asks for one. Needs no program except for the older tables. Throws `CniError`.
 */
export function deleteIptablesFirewall(
  socket: Nftables,
  owner: Owner,
  addresses: readonly Uint8Array[],
  bridge: string | undefined,
): void {
  const comment = ownerComment(owner)
  const stale = {
    isOwnerStale: (found: string) => found === comment,
    addresses: addresses.map(hostOf),
    bridges: bridge === undefined ? [] : [bridge],
  }
  removeEverywhere(socket, TABLE, firewallSearch, (found) => planRemove(found, stale))
}

/** Deletes the rules of all attachments to this network but the valid ones. Throws `CniError`. */
export function gcIptablesFirewall(socket: Nftables, network: string, valid: readonly Owner[]): void {
  const stale = { isOwnerStale: staleOf(network, valid), addresses: [], bridges: [] }
  removeEverywhere(socket, TABLE, firewallSearch, (found) => planRemove(found, stale))
}

/** The addresses, "10.1.0.2/32", that labels of iptables know, with their owners. Throws `CniError`, `NetlinkError`. */
export function listLabels(socket: Nftables): { ip: string; owner: string }[] {
  return findEverywhere(socket, TABLE, firewallSearch).flatMap(({ rules }) =>
    rules.flatMap((rule) => readLabel(rule) ?? []),
  )
}

/** Checks that all is as `addIptablesFirewall` has left it. Throws `CniError` that names the first rule that is missing. */
export function checkIptablesFirewall(socket: Nftables, spec: FirewallSpec): void {
  const variant = chooseVariant(socket)
  for (const { family, rules } of iptablesSpecs(spec)) {
    const look = () => findMissing(rules, readTable(requirePrograms(family, variant), TABLE))
    // A table may change while it is listed: what is missing is missing twice.
    const missing = look() && look()
    if (missing === undefined) continue
    const what = `Cannot find the firewall rules of ${rules.owner} by iptables`
    throw new CniError(Code.Internal, `${what}: expected ${missing}; found none`)
  }
}
