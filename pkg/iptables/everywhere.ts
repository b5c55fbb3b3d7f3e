import type { NetlinkSocket } from "../netlink/mod.ts"
import { atomically } from "../nftables/mod.ts"
import { Failures } from "../undo/mod.ts"
import { removalChanges } from "./change.ts"
import { changeTable } from "./change-table.ts"
import { findInKernel, kernelOperations, type Search } from "./kernel-rules.ts"
import { findLegacyTable } from "./legacy-tables.ts"
import { type Content, type Family, type Removal, type Rule, type TableName, targetOf } from "./rule.ts"
import { readTable } from "./run.ts"

const FAMILIES = ["ip", "ip6"] as const

/** What a search has found in one of the places where iptables keeps rules. */
export interface Found extends Content {
  family: Family
  place: "nf_tables" | "legacy"
}

/**
 * Looks into every place where iptables may have put rules in this namespace: nf_tables, natively, and the older tables
 * by their program where they are in use. Answers the places where something is. Nothing anywhere costs two questions to
 * the kernel for each chain, and two small files. `socket` is undefined on a kernel without nf_tables. Throws
 * `NetlinkError` and `CniError`.
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
 * Takes out what `plan` chooses of what a search finds, in every place; in nf_tables in one transaction, made on the very
 * rules that `plan` was shown. Goes through all places whatever fails, and then throws `CniError`.
 *
 * @example
 * removeEverywhere(socket, "nat", { chains: [name], parents: ["POSTROUTING"] }, allOf)
 */
export function removeEverywhere(
  socket: NetlinkSocket | undefined,
  table: TableName,
  search: Search,
  plan: <R extends Rule>(found: Content<R>) => Removal<R>,
): void {
  const failures = new Failures()
  failures.attempt(`remove rules from table ${table} of nf_tables`, () => {
    if (!socket || FAMILIES.every((family) => findInKernel(socket, family, table, search).chains.length === 0)) return
    atomically(socket, () =>
      FAMILIES.flatMap((family) => kernelOperations(family, table, plan(findInKernel(socket, family, table, search)))),
    )
  })
  for (const family of FAMILIES) {
    failures.attempt(`remove rules from the legacy table ${table}`, () => {
      const programs = findLegacyTable(family, table)
      if (programs) changeTable(programs, table, (content) => removalChanges(plan(narrow(content, search))))
    })
  }
  failures.throwIfAny()
}

/** The plan that takes out all chains of a search, and all rules that lead to them. */
export function allOf<R extends Rule>({ chains, rules }: Content<R>): Removal<R> {
  return { chains, rules: rules.filter(({ chain }) => !chains.includes(chain)) }
}

/** The part of a table that a search asks for. */
export function narrow({ chains, rules }: Content, search: Search): Content {
  const wanted = search.chains
  const found = chains.filter((name) => (wanted instanceof RegExp ? wanted.test(name) : wanted.includes(name)))
  const leadsThere = (rule: Rule) => search.parents.includes(rule.chain) && found.includes(targetOf(rule) ?? "")
  return { chains: found, rules: rules.filter((rule) => found.includes(rule.chain) || leadsThere(rule)) }
}
