import {
  type Change,
  type Content,
  changeKernelTable,
  changeTable,
  findLegacyTable,
  findPrograms,
  isLegacyDefault,
  isTableInUse,
  listKernelRules,
  type Removal,
  type Rule,
  readTable,
  removalChanges,
  removeFromKernelTable,
  targetOf,
} from "../../../pkg/iptables/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import { findBase, listTables, type PacketFilter, tableFamily } from "../../../pkg/nftables/mod.ts"
import { CniError, Code, FAMILIES, type Family, familyOf } from "../../../pkg/types/mod.ts"
import { Failures } from "../../../pkg/undo/mod.ts"
import { FIREWALL_TABLE } from "../nftables/layout.ts"
import { planAcceptMarked } from "./plan.ts"
import { acceptMarked, FORWARD, isAcceptMarked, isJumpToAdmin, PARENT, TABLE } from "./rules.ts"

/**
 * Adds a rule to iptables' chain `FORWARD` that accepts the packets accepted by our nf_tables table, because an accept
 * in one table does not overrule a drop in another. One rule serves all containers. Each existing filter table of
 * iptables, legacy and nft, gets the rule. So does the table that this host's `iptables` would create, because docker
 * may later set the policy of `FORWARD` to DROP. Only iptables-legacy needs a program. If nothing is dropped, a failure
 * is harmless and is returned as a log message. Throws `CniError` and `NetlinkError`.
 */
export function ensureAcceptMarked(
  filter: PacketFilter,
  addresses: readonly Uint8Array[],
  adminChain: string,
): string[] {
  const plan = (found: Content) => (isAccepting(found) ? [] : planAcceptMarked(adminChain, found))
  return familiesOf(addresses).flatMap((family) => {
    const lines = isLegacyDefault(family) && !filter.hasTable(TABLE) ? [] : ensureNative(filter.socket, family, plan)
    ensureLegacy(family, plan)
    return lines
  })
}

type Plan = (found: Content) => readonly Change[]

function ensureNative(socket: NetlinkSocket, family: Family, plan: Plan): string[] {
  try {
    if (!isAccepting(findForwardRules(socket, family))) changeKernelTable(socket, family, TABLE, plan)
    return []
  } catch (error) {
    if (isDropping(socket, family)) throw error
    return [`${describe(family)}: ${error}`]
  }
}

function ensureLegacy(family: Family, plan: Plan): void {
  const used = findLegacyTable(family, TABLE)
  const programs = used ?? (isLegacyDefault(family) ? findPrograms(family, "legacy") : undefined)
  try {
    if (programs) changeTable(programs, TABLE, plan)
  } catch (error) {
    if (used) throw error // otherwise the kernel has no such tables
  }
}

/**
 * Reverses `ensureAcceptMarked` if the nf_tables table no longer exists: deletes the rule, and the chain and table that
 * were created for the rule if they are empty. A concurrent ADD keeps the rule. Tries all tables, then throws
 * `CniError`.
 */
export function removeAcceptMarked(filter: PacketFilter | undefined, adminChain: string): void {
  if (!filter || !isTableInUse(filter, TABLE)) return
  const { socket } = filter
  const isNeeded = () => listTables(socket).some(({ name }) => name === FIREWALL_TABLE)
  if (isNeeded()) return
  const failures = new Failures()
  for (const family of FAMILIES) {
    failures.attempt("remove the accepting rule from iptables", () => {
      if (!findForwardRules(socket, family).rules.some(isAcceptMarked)) return
      removeFromKernelTable(socket, family, TABLE, (found) => (isNeeded() ? nothing : planRemoveMarked(found)))
    })
    failures.attempt("remove the accepting rule from the older tables of iptables", () => {
      const programs = findLegacyTable(family, TABLE)
      if (!programs) return
      changeTable(programs, TABLE, (found) => removalChanges(planRemoveMarked(found)))
      // A concurrent ADD may have seen the rule before it was deleted.
      if (isNeeded()) changeTable(programs, TABLE, (found) => planAcceptMarked(adminChain, found))
    })
  }
  failures.throwIfAny()
}

const nothing = { rules: [], chains: [] }

/**
 * Returns the removals from the table `found`: the rule; upstream's chain with the jump to it, if the chain has no
 * other rule; and an empty administrator's chain.
 */
export function planRemoveMarked<R extends Rule>({ rules, chains }: Content<R>): Removal<R> {
  const marked = rules.filter(isAcceptMarked)
  const others = rules.filter((rule) => rule.chain === FORWARD && !isAcceptMarked(rule))
  const leading = rules.filter((rule) => targetOf(rule) === FORWARD)
  const isShared = !others.every(isJumpToAdmin) || leading.some(({ chain }) => chain !== PARENT)
  if (marked.length === 0 || isShared) return { rules: marked, chains: [] }
  const isUnused = (chain: string) =>
    rules.every((rule) => rule.chain !== chain && (targetOf(rule) !== chain || rule.chain === FORWARD))
  const admin = new Set(others.flatMap((rule) => targetOf(rule) ?? []))
  const empty = [...admin].filter((chain) => chains.includes(chain) && isUnused(chain))
  return { rules: leading, chains: [FORWARD, ...empty] }
}

/** Checks that iptables accepts the traffic that the nf_tables table accepts. Throws `CniError`, `NetlinkError`. */
export function checkAcceptMarked({ socket }: PacketFilter, addresses: readonly Uint8Array[]): void {
  for (const family of familiesOf(addresses)) {
    const legacy = findLegacyTable(family, TABLE)
    const found = legacy ? readTable(legacy, TABLE) : undefined
    const isMissing =
      (isDropping(socket, family) && !isAccepting(findForwardRules(socket, family))) ||
      (found?.dropping?.includes(PARENT) && !isAccepting(found))
    if (isMissing) throw new CniError(Code.Internal, describe(family))
  }
}

function familiesOf(addresses: readonly Uint8Array[]): Family[] {
  return FAMILIES.filter((family) => addresses.some((ip) => familyOf(ip) === family))
}

function describe(family: Family): string {
  const rule = `rule "${[acceptMarked.chain, ...acceptMarked.words].join(" ")}"`
  return `Cannot find the accepting rule in table ${tableFamily[family]} ${TABLE}: expected ${rule}, reached from ${PARENT}; found none`
}

/** Returns the rules of upstream's chain in nf_tables and the jump to it from `FORWARD`. */
function findForwardRules(socket: NetlinkSocket, family: Family): Content {
  const list = (chain: string, targets?: string[]) => listKernelRules(socket, { family, table: TABLE, chain }, targets)
  return { chains: [], rules: [...list(PARENT, [FORWARD]), ...list(FORWARD)] }
}

function isDropping(socket: NetlinkSocket, family: Family): boolean {
  return findBase(socket, { table: { family: tableFamily[family], name: TABLE }, name: PARENT })?.policy === "drop"
}

/** Reports whether forwarded packets reach the accepting rule. */
function isAccepting({ rules }: Content): boolean {
  const isReached = rules.some((rule) => rule.chain === PARENT && targetOf(rule) === FORWARD)
  return isReached && rules.some(isAcceptMarked)
}
