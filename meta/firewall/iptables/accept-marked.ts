import {
  type Content,
  changeTable,
  findInKernel,
  findLegacyTable,
  findPrograms,
  type Programs,
  readTable,
  targetOf,
} from "../../../pkg/iptables/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import { findChainPolicy, type PacketFilter, tableFamily } from "../../../pkg/nftables/mod.ts"
import { AF_INET, AF_INET6, CniError, Code, type Family, familyOf } from "../../../pkg/types/mod.ts"
import { planAcceptMarked } from "./plan.ts"
import { acceptMarked, FORWARD, isAcceptMarked, PARENT, STAGE_1, TABLE } from "./rules.ts"

/** A place where iptables filters forwarded packets. */
interface Filter {
  family: Family
  /** What is in it of `FORWARD`, upstream's chain, and the administrator's. */
  found: Content
  /** Whether packets that no rule accepts are dropped. */
  isDropping: boolean
  /** What changes it; undefined when the programs are missing. */
  programs: Programs | undefined
}

/**
 * Has iptables' chain `FORWARD` accept what the table of nf_tables lets through, wherever that chain does anything: an accept of
 * one table does not overrule the drop of another. One rule for all containers, made when it is missing. Returns what it could
 * not change, in words, for the log. Throws `CniError`, `NetlinkError`.
 */
export function ensureAcceptMarked(
  filter: PacketFilter,
  addresses: readonly Uint8Array[],
  adminChain: string,
): string[] {
  return findFilters(filter, addresses, adminChain).flatMap(({ found, family, isDropping, programs }) => {
    if (isAccepting(found) || !(isDropping || isUsed(found, adminChain))) return []
    if (!programs) return [describe(family)]
    changeTable(programs, TABLE, (content) => planAcceptMarked(adminChain, content))
    return []
  })
}

/** Checks that what the table of nf_tables lets through is not dropped by iptables. Throws `CniError`, `NetlinkError`. */
export function checkAcceptMarked(filter: PacketFilter, addresses: readonly Uint8Array[], adminChain: string): void {
  for (const { found, family, isDropping } of findFilters(filter, addresses, adminChain)) {
    if (isDropping && !isAccepting(found)) throw new CniError(Code.Internal, describe(family))
  }
}

function describe(family: Family): string {
  const rule = `rule "${[acceptMarked.chain, ...acceptMarked.words].join(" ")}"`
  return `Cannot find the way through table ${tableFamily[family]} ${TABLE}: expected ${rule}, reached from ${PARENT}; found none`
}

function findFilters(filter: PacketFilter, addresses: readonly Uint8Array[], adminChain: string): Filter[] {
  const families = ([AF_INET, AF_INET6] as const).filter((family) => addresses.some((ip) => familyOf(ip) === family))
  return families.flatMap((family) => {
    const legacy = findLegacyTable(family, TABLE)
    return [
      ...(filter.hasTable(TABLE) ? findNative(filter.socket, family, adminChain) : []),
      ...(legacy ? findLegacy(legacy, adminChain) : []),
    ]
  })
}

function findNative(socket: NetlinkSocket, family: Family, adminChain: string): Filter[] {
  const policy = findChainPolicy(socket, { table: { family: tableFamily[family], name: TABLE }, name: PARENT })
  const found = findInKernel(socket, family, TABLE, { chains: [PARENT, FORWARD, adminChain], parents: [] })
  return [{ family, found, isDropping: policy === "drop", programs: findPrograms(family) }]
}

function findLegacy(programs: Programs, adminChain: string): Filter[] {
  const { rules, dropping = [] } = readTable(programs, TABLE)
  const found = { chains: [], rules: rules.filter(({ chain }) => [PARENT, FORWARD, adminChain].includes(chain)) }
  return [{ family: programs.family, found, isDropping: dropping.includes(PARENT), programs }]
}

function isAccepting({ rules }: Content): boolean {
  const isReached = rules.some((rule) => rule.chain === PARENT && targetOf(rule) === FORWARD)
  return isReached && rules.some(isAcceptMarked)
}

/** Whether rules of others are in `FORWARD`, which may drop, or rules of the administrator, which are to be heeded. */
function isUsed({ rules }: Content, adminChain: string): boolean {
  const isOurs = (target: string | undefined) => target === FORWARD || target === STAGE_1
  return rules.some((rule) => rule.chain === adminChain || (rule.chain === PARENT && !isOurs(targetOf(rule))))
}
