import { encodeUtf8 } from "../../../pkg/engine/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  atomically,
  commitQuickly,
  describeDormant,
  dryRun,
  type Element,
  findElements,
  getElement,
  ifnameValue,
  KeyQueues,
  membersOf,
  type PacketFilter,
  printElement,
} from "../../../pkg/nftables/mod.ts"
import {
  missingRules,
  NftablesBackend,
  type Restored,
  type RuleBackend,
  restoreBy,
  type Sought,
} from "../../../pkg/rules/mod.ts"
import { type CniError, familyOf, ownerComment } from "../../../pkg/types/mod.ts"
import type { Undo } from "../../../pkg/undo/mod.ts"
import { checkAcceptMarked, ensureAcceptMarked, removeAcceptMarked } from "../iptables/accept-marked.ts"
import type { DelHints, FirewallSpec, ZonedSpec } from "../spec.ts"
import { planRemoval, type SoughtAddresses } from "./delete.ts"
import { asked, containers, FIREWALL_TABLE, isolatedPorts, portsTable, table } from "./layout.ts"
import { addTable, isComplete, planAdd, planNew } from "./plan.ts"
import { addPortsTable, askedBy, findPolicy, isAskedFor, isPoliced, isPortApart, listAsked } from "./policies.ts"
import { planRestore } from "./restore.ts"

const NOTHING_TOLD: DelHints = { addresses: [], bridge: undefined }

/** The default name of the administrator's chain. */
const ADMIN_CHAIN = "CNI-ADMIN"

/** The firewall rules in nf_tables, and the rule in iptables that accepts the same traffic. */
export class NftablesFirewall
  extends NftablesBackend<DelHints, PacketFilter>
  implements RuleBackend<ZonedSpec, DelHints>
{
  protected readonly table = FIREWALL_TABLE
  readonly #log: (line: string) => void
  /** The addresses' elements that `remove` and `gc` have deleted. */
  readonly deleted: Element[] = []

  constructor(filter: PacketFilter, log: (line: string) => void) {
    super(filter)
    this.#log = log
  }

  isUsable(spec?: ZonedSpec): boolean {
    return canFilter(this.socket, spec?.adminChain ?? ADMIN_CHAIN)
  }

  add(spec: ZonedSpec, undo: Undo, onMissingRules = () => {}): void {
    const { filter } = this
    const revert = () => {
      this.takeBack(spec.owner)
      filter.forgetTables()
      removeAcceptMarked(filter, spec.adminChain)
    }
    const isWhole = undo.defer("let traffic through", revert, () =>
      addFirewall(filter.socket, spec, spec.zone, onMissingRules),
    )
    if (!isWhole) {
      this.#log("The kernel has no nf_tables for bridges: only br_netfilter can isolate ports of one bridge")
    }
    filter.forgetTables()
    for (const line of ensureAcceptMarked(filter, spec.addresses, spec.adminChain)) this.#log(line)
  }

  check(spec: ZonedSpec): void {
    checkFirewall(this.socket, spec)
    checkAcceptMarked(this.filter, spec.addresses)
  }

  restore(specs: readonly ZonedSpec[], isDry: boolean): Restored[] {
    const { socket, filter } = this
    const canKeepPortsApart = specs.some(({ policy }) => policy === "isolated") && canFilterBridges(socket)
    const became = restoreBy(socket, isDry, () => planRestore(socket, specs, canKeepPortsApart))
    filter.forgetTables()
    for (const [adminChain, ours] of Map.groupBy(specs, (spec) => spec.adminChain)) {
      const addresses = ours.flatMap((spec) => spec.addresses)
      const isLost = specs.some((spec, at) => spec.adminChain === adminChain && became[at] === "missing")
      if (!isLost && isWayOpen(filter, addresses)) continue
      if (!isDry) for (const line of ensureAcceptMarked(filter, addresses, adminChain)) this.#log(line)
      for (const [at, spec] of specs.entries())
        if (spec.adminChain === adminChain && became[at] === "whole") became[at] = "missing"
    }
    return became
  }

  protected removeAll(sought: Sought, { addresses } = NOTHING_TOLD): void {
    this.deleted.push(...deleteFirewall(this.socket, { ...sought, addresses }))
  }
}

/** Reports whether iptables accepts the traffic that the nf_tables table accepts. */
function isWayOpen(filter: PacketFilter, addresses: readonly Uint8Array[]): boolean {
  try {
    checkAcceptMarked(filter, addresses)
    return true
  } catch {
    return false
  }
}

/**
 * Accepts an attachment's traffic and applies its policy in one transaction: `nft add element inet cni_firewall
 * containers { 10.1.0.2 comment "network/containerID/ifname" }`. Calls `onMissingRules` before it adds missing tables,
 * chains, sets and rules. Notes the firewalld zone with the addresses. Returns false if the policy isolates ports and
 * the kernel cannot filter on bridges. Throws `NetlinkError` without having changed anything.
 */
export function addFirewall(
  socket: NetlinkSocket,
  spec: FirewallSpec,
  zone?: string,
  onMissingRules = () => {},
): boolean {
  const canKeepPortsApart = spec.policy !== "isolated" || canFilterBridges(socket)
  const quick = planNew(socket, spec, zone)
  if (!quick) onMissingRules()
  commitQuickly(socket, quick, () => planAdd(socket, spec, { zone, canKeepPortsApart }))
  return canKeepPortsApart
}

/**
 * Removes the elements and policies of `sought` in one transaction, and the table with the last element. Returns the
 * removed elements of addresses. Throws `NetlinkError`.
 */
export function deleteFirewall(socket: NetlinkSocket, sought: SoughtAddresses): readonly Element[] {
  let deleted: readonly Element[] = []
  atomically(socket, () => {
    const { operations, elements } = planRemoval(socket, sought)
    deleted = elements
    return operations
  })
  return deleted
}

/** Returns the elements of all addresses, or only those that contain one of `needles`. Throws `NetlinkError`. */
export function listAddresses(socket: NetlinkSocket, needles?: readonly Uint8Array[]): Element[] {
  const sets = Object.values(containers).flatMap((set) => [set, set.standby])
  return sets.flatMap((set) => findElements(socket, set, needles)?.elements ?? [])
}

/** Returns the elements of `addresses`, also those on standby, by one request per address. Throws `NetlinkError`. */
export function findAddresses(socket: NetlinkSocket, addresses: readonly Uint8Array[]): Element[] {
  const queues = new KeyQueues(socket)
  return addresses.flatMap((ip) => membersOf(queues.find(containers[familyOf(ip)], [ip])))
}

/**
 * Checks that everything that `addFirewall` added is unchanged. Throws `CniError` with the expected and the found
 * state, and `NetlinkError` if the rule set cannot be read.
 */
export function checkFirewall(socket: NetlinkSocket, spec: FirewallSpec): void {
  const { owner, addresses, policy, link, adminChain } = spec
  const comment = ownerComment(owner)
  const expectRules = (needed: { hasPolicies: boolean }) => {
    if (isComplete(socket, adminChain, needed)) return
    throw missing(comment, `the rules of table inet ${table.name}`, describeDormant(socket, table))
  }
  expectRules({ hasPolicies: false })
  const queues = new KeyQueues(socket)
  for (const ip of addresses) {
    const set = containers[familyOf(ip)]
    const { members } = queues.find(set, [ip])
    if (members[0] && members.some((one) => one?.comment === comment)) continue
    const found = members[0] ? printElement(set, members[0]) : "none"
    throw missing(
      comment,
      `${printElement(set, { key: [ip], comment })} in set inet ${set.table.name} ${set.name}`,
      found,
    )
  }
  if (!link || policy === "open") return
  const [wanted] = askedBy(policy, link, owner.containerId, comment)
  const isOwn = (one: { comment?: string | undefined } | undefined) => one?.comment === comment
  if (!wanted || !isOwn(getElement(socket, asked[policy], [wanted.bridge, wanted.port]))) {
    const here = listAsked(socket, [encodeUtf8(comment)]).filter(isOwn)
    if (here[0]?.policy !== policy || String(here[0].bridge) !== String(wanted?.bridge)) {
      throw missing(comment, `policy ${policy} for bridge "${link.bridge}"`, here[0]?.policy)
    }
  }
  const inForce = findPolicy(socket, ifnameValue(link.bridge))
  const expected = isAskedFor(socket, "isolated", ifnameValue(link.bridge)) ? "isolated" : policy
  const isLookedAt = isPoliced(socket, ifnameValue(link.bridge))
  if (inForce !== expected || !isLookedAt) {
    throw missing(comment, `policy ${expected} in force on bridge "${link.bridge}"`, isLookedAt ? inForce : "open")
  }
  expectRules({ hasPolicies: true })
  const isApart = policy !== "isolated" || !wanted || isPortApart(socket, wanted.port)
  if (!isApart && canFilterBridges(socket)) {
    const expected = `"${link.port}" in set bridge ${portsTable.name} isolated`
    throw missing(comment, expected, describeDormant(socket, portsTable))
  }
}

function missing(owner: string, expected: string, found?: string): CniError {
  return missingRules(`the firewall rules of ${owner}`, expected, found)
}

/**
 * Reports whether this kernel supports what `addFirewall` needs: nf_tables with filters and connection tracking. If
 * there is no table yet, tries to add one by `dryRun`. Throws `EPERM` without CAP_NET_ADMIN.
 */
export function canFilter(socket: NetlinkSocket, adminChain: string): boolean {
  return dryRun(socket, table, () =>
    isComplete(socket, adminChain, { hasPolicies: false }) ? [] : addTable([adminChain], { hasPolicies: true }),
  )
}

/** Reports whether this kernel filters on bridges (`CONFIG_NF_TABLES_BRIDGE`). */
function canFilterBridges(socket: NetlinkSocket): boolean {
  return dryRun(socket, portsTable, () => (findElements(socket, isolatedPorts, []) ? [] : addPortsTable()))
}
