import { readTextFile, unlessErrno } from "../libc/mod.ts"
import type { NetlinkSocket } from "../netlink/mod.ts"
import { atomically } from "../nftables/mod.ts"
import { AF_INET, AF_INET6, FAMILIES, type Family } from "../types/mod.ts"
import { Failures } from "../undo/mod.ts"
import { findInKernel, kernelOperations, type Search } from "./kernel-rules.ts"
import { findPrograms, type Programs } from "./programs.ts"
import { type Content, type Removal, type Rule, type TableName, targetOf } from "./rule.ts"
import { changeTable, readTable } from "./run.ts"
import { removalChanges } from "./save-restore.ts"

/**
 * The files that list the tables of iptables-legacy in the thread's namespace. They list only tables that were used.
 */
type Lists = Readonly<Record<Family, string>>
const LISTS: Lists = {
  [AF_INET]: "/proc/thread-self/net/ip_tables_names",
  [AF_INET6]: "/proc/thread-self/net/ip6_tables_names",
}

/** The chains and rules that a search has found in nf_tables or in a legacy table. */
export interface Found extends Content {
  family: Family
  place: "nf_tables" | "legacy"
}

/**
 * Searches nf_tables directly, and legacy tables by their program if the thread's namespace has any. Returns the
 * backends in which chains were found. Usually no chains exist, and the search then takes two requests per chain and
 * reads two small files. `socket` is undefined on a kernel without nf_tables. Throws `NetlinkError` and `CniError`.
 */
export function findEverywhere(socket: NetlinkSocket | undefined, table: TableName, search: Search): Found[] {
  return FAMILIES.flatMap((family): Found[] => {
    const native = socket ? findInKernel(socket, family, table, search) : { chains: [], rules: [] }
    const programs = findLegacyTable(family, table)
    const legacy = programs ? narrow(readTable(programs, table), search) : { chains: [], rules: [] }
    return [
      { family, place: "nf_tables" as const, ...native },
      { family, place: "legacy" as const, ...legacy },
    ].filter(({ chains }) => chains.length > 0)
  })
}

/**
 * Removes the rules and chains that `plan` selects from the results of a search, in nf_tables and in legacy tables. The
 * removal from nf_tables is one transaction, on exactly the rules that `plan` has received. Continues after a failure,
 * and then throws `CniError`.
 *
 * @example
 * removeEverywhere({ socket, table: "nat" }, { chains: [name], parents: ["POSTROUTING"] }, (found) => planRemoval(found, owner))
 */
export function removeEverywhere(
  { socket, table, lists = LISTS }: { socket: NetlinkSocket | undefined; table: TableName; lists?: Lists },
  search: Search,
  plan: <R extends Rule>(found: Content<R>) => Removal<R>,
): void {
  const failures = new Failures()
  failures.attempt(`remove rules from table ${table} of nf_tables`, () => {
    if (!socket) return
    const planned = () =>
      FAMILIES.flatMap((family) => kernelOperations(family, table, plan(findInKernel(socket, family, table, search))))
    // Usually there is nothing to remove; then the generation is not read.
    if (planned().length > 0) atomically(socket, planned)
  })
  for (const family of FAMILIES) {
    failures.attempt(`remove rules from the legacy table ${table}`, () => {
      const programs = findLegacyTable(family, table, lists)
      if (programs) changeTable(programs, table, (content) => removalChanges(plan(narrow(content, search))))
    })
  }
  failures.throwIfAny()
}

/** Returns the part of a table that matches a search: the chains, their rules, and the rules that jump to them. */
export function narrow({ chains, rules }: Content, search: Search): Content {
  const { chains: sought } = search
  const found = chains.filter((name) => (sought instanceof RegExp ? sought.test(name) : sought.includes(name)))
  const leadsThere = (rule: Rule) => search.parents.includes(rule.chain) && found.includes(targetOf(rule) ?? "")
  return { chains: found, rules: rules.filter((rule) => found.includes(rule.chain) || leadsThere(rule)) }
}

/**
 * Reports whether iptables may have rules in this table of the thread's namespace: in nf_tables, whose tables `filter`
 * knows, or in a legacy table. If not, as on most hosts without kube-proxy, nothing can be found or removed.
 */
export function isTableInUse(
  filter: { hasTable(name: string): boolean } | undefined,
  table: TableName,
  lists: Lists = LISTS,
): boolean {
  return filter?.hasTable(table) || FAMILIES.some((family) => hasLegacyTable(family, table, lists))
}

function hasLegacyTable(family: Family, table: TableName, lists: Lists): boolean {
  // The file is missing on a kernel without legacy tables.
  const names = unlessErrno(() => readTextFile(lists[family]), "ENOENT", "EACCES", "EPERM")
  return names?.split("\n").includes(table) === true
}

/**
 * Returns the programs for legacy tables if the namespace has this table. If it does not, returns undefined, because
 * running the program would create the table. Also returns undefined if the program is not installed, because nothing
 * else can read these tables.
 */
export function findLegacyTable(family: Family, table: TableName, lists: Lists = LISTS): Programs | undefined {
  return hasLegacyTable(family, table, lists) ? findPrograms(family, "legacy") : undefined
}
