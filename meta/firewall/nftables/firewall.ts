import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import { isErrno } from "../../../pkg/libc/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  atomically,
  describeDormant,
  dryRun,
  type Element,
  findElements,
  hasNftables,
  ifnameValue,
  Lines,
  type NamedSet,
  printElement,
  tryCommit,
} from "../../../pkg/nftables/mod.ts"
import {
  AF_INET,
  AF_INET6,
  CniError,
  Code,
  familyOf,
  type Owner,
  ownerComment,
  staleOf,
} from "../../../pkg/types/mod.ts"
import type { FirewallSpec } from "../spec.ts"
import { planRemoval, type Sought } from "./delete.ts"
import { firewallLayout, portsLayout } from "./layout.ts"
import { addTable, isComplete, planAdd, planNew } from "./plan.ts"
import { addPortsTable, askedBy, findPolicy, isAskedFor, isPortApart, listAsked } from "./policies.ts"

/**
 * Lets an attachment's traffic through and applies its policy, all in one transaction: `nft add element inet cni_firewall
 * containers { 10.1.0.2 comment "network/containerID/ifname" }` and so on, with table, chains, sets and rules where they are
 * missing. Doing it again changes nothing. `zone` of firewalld is noted beside the addresses. Returns false when the kernel cannot filter on
 * bridges, which keeps isolated ports apart. Throws `NetlinkError`, and then nothing has changed.
 */
export function addFirewall(socket: NetlinkSocket, spec: FirewallSpec, zone?: string): boolean {
  const layout = firewallLayout()
  const plain = planNew(socket, layout, spec, zone)
  if (plain && tryCommit(socket, plain)) return true
  const canKeepPortsApart = spec.policy !== "isolated" || canFilterBridges(socket)
  atomically(socket, () => planAdd(socket, layout, spec, { zone, canKeepPortsApart }))
  return canKeepPortsApart
}

/**
 * Ends what `addFirewall` has begun for an attachment, found by its name alone, in one transaction; with the last one the table
 * goes. `addresses`, which may be wrong, are where it looks first. Returns the elements of its addresses. Nothing there is success. Throws `NetlinkError`.
 */
export function deleteFirewall(
  socket: NetlinkSocket,
  owner: Owner,
  addresses: readonly Uint8Array[] = [],
): readonly Element[] {
  const comment = ownerComment(owner)
  const isStale = (found: string) => found === comment
  return removeWhere(socket, {
    isStale,
    needles: [encodeUtf8(comment)],
    told: { owner, addresses },
  })
}

/** The same for all attachments to this network but the valid ones. */
export function gcFirewall(socket: NetlinkSocket, network: string, valid: readonly Owner[]): readonly Element[] {
  return removeWhere(socket, { isStale: staleOf(network, valid) })
}

function removeWhere(socket: NetlinkSocket, sought: Sought): readonly Element[] {
  let elements: readonly Element[] = []
  try {
    atomically(socket, () => {
      const removal = planRemoval(socket, firewallLayout(), sought)
      elements = removal.elements
      return removal.operations
    })
  } catch (error) {
    if (!isErrno(error, "EINVAL", "EOPNOTSUPP") || hasNftables(socket)) throw error
  }
  return elements
}

/** The elements of addresses, with their owners and notes: all, or those that have one of `needles`. Throws `NetlinkError`. */
export function listAddresses(socket: NetlinkSocket, needles?: readonly Uint8Array[]): Element[] {
  const { containers } = firewallLayout()
  const sets = [AF_INET, AF_INET6].flatMap((family) => containers[family as keyof typeof containers])
  return sets.flatMap((set) =>
    [set, set.standby].flatMap((each) => findElements(socket, each as NamedSet, needles)?.elements ?? []),
  )
}

/**
 * Checks that all is as `addFirewall` has left it. Throws `CniError` that tells what was expected and what was found, and
 * `NetlinkError` when the rule set cannot be read.
 */
export function checkFirewall(socket: NetlinkSocket, spec: FirewallSpec): void {
  const { owner, addresses, policy, link, adminChain } = spec
  const layout = firewallLayout()
  const comment = ownerComment(owner)
  const expectRules = (needed: { hasPolicies: boolean }) => {
    if (isComplete(socket, layout, adminChain, needed)) return
    throw missing(comment, `the rules of table inet ${layout.table.name}`, describeDormant(socket, layout.table))
  }
  expectRules({ hasPolicies: false })
  const lines = new Lines(socket)
  for (const ip of addresses) {
    const set = layout.containers[familyOf(ip)]
    const { members } = lines.find(set, [ip])
    if (members[0] && members.some((one) => one?.comment === comment)) continue
    const found = members[0] ? printElement(set, members[0]) : "none"
    throw missing(
      comment,
      `${printElement(set, { key: [ip], comment })} in set inet ${set.table.name} ${set.name}`,
      found,
    )
  }
  if (!link || policy === "open") return
  const [asked] = askedBy(policy, link, owner.containerId, comment)
  const here = listAsked(socket, layout, [encodeUtf8(comment)]).filter((one) => one.comment === comment)
  if (here[0]?.policy !== policy || String(here[0].bridge) !== String(asked?.bridge)) {
    throw missing(comment, `policy ${policy} for bridge "${link.bridge}"`, here[0]?.policy)
  }
  const inForce = findPolicy(socket, layout, ifnameValue(link.bridge))
  const expected = isAskedFor(socket, layout, "isolated", ifnameValue(link.bridge)) ? "isolated" : policy
  const isPoliced = (findElements(socket, layout.policed)?.elements ?? []).some(
    ({ key }) => String(key[0]) === String(ifnameValue(link.bridge)),
  )
  if (inForce !== expected || !isPoliced) {
    throw missing(comment, `policy ${expected} in force on bridge "${link.bridge}"`, isPoliced ? inForce : "open")
  }
  expectRules({ hasPolicies: true })
  const isApart = policy !== "isolated" || !asked || isPortApart(socket, asked.port)
  if (!isApart && canFilterBridges(socket)) {
    const { table } = portsLayout()
    throw missing(comment, `"${link.port}" in set bridge ${table.name} isolated`, describeDormant(socket, table))
  }
}

function missing(owner: string, expected: string, found = "none"): CniError {
  const what = `Cannot find the firewall rules of ${owner}`
  return new CniError(Code.Internal, `${what}: expected ${expected}; found ${found}`)
}

/**
 * Whether this kernel can do what `addFirewall` needs: nf_tables with filters and connection tracking. Where no table is in place
 * yet it tries. Throws `EPERM` without CAP_NET_ADMIN.
 */
export function canFilter(socket: NetlinkSocket, adminChain: string): boolean {
  const layout = firewallLayout()
  return dryRun(socket, layout.table, () =>
    isComplete(socket, layout, adminChain, { hasPolicies: false })
      ? []
      : addTable(layout, [adminChain], { hasPolicies: true }),
  )
}

/** Whether this kernel filters on bridges (`CONFIG_NF_TABLES_BRIDGE`). */
function canFilterBridges(socket: NetlinkSocket): boolean {
  const { table, isolated } = portsLayout()
  return dryRun(socket, table, () => (findElements(socket, isolated, []) ? [] : addPortsTable()))
}
