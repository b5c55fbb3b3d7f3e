import { listRoutesOf, RTPROT_SBR } from "../../pkg/ip/mod.ts"
import {
  type Link,
  type ListedRoute,
  listRoutingTables,
  listRules,
  type NetlinkSocket,
  RT_TABLE_MAIN,
  type Rule,
} from "../../pkg/netlink/mod.ts"
import { FAMILIES, keyOf } from "../../pkg/types/mod.ts"
import { addRoutesBack, deleteRoutes, TABLE_OF_UNUSED } from "./tables.ts"

/** The interface whose rules are removed, and its known addresses. */
export interface Sources {
  link: Link | undefined
  /** The interface's present and former addresses. */
  ips: readonly Uint8Array[]
  allIps: readonly Uint8Array[]
  table: number | undefined
}

/**
 * Returns the rules to remove for an interface: a rule for one of its addresses if sbr added the rule, or if the rule
 * selects the configured table or a table with routes of this interface only; also a rule that sbr added for an address
 * that no interface has. Throws `NetlinkError`.
 */
export function findSourceRules(inside: NetlinkSocket, { link, ips, allIps, table }: Sources): Rule[] {
  const [own, all] = [new Set(ips.map(keyOf)), new Set(allIps.map(keyOf))]
  const isMade = ({ protocol }: Rule) => protocol === RTPROT_SBR
  const listed = FAMILIES.flatMap((family) => listRules(inside, family, { ofOneSource: true }))
  const found = listed.filter((rule) => {
    const source = sourceOf(rule)
    return own.has(source) || (isMade(rule) && !all.has(source))
  })
  const isCertain = (rule: Rule) => isMade(rule) || rule.table === table
  if (!link || found.every(isCertain)) return found.filter(isCertain)
  const tables = new Map(FAMILIES.map((family) => [family, listRoutingTables(inside, family)]))
  const isAlone = ({ family, table }: Rule) => {
    const links = tables.get(family)?.get(table)
    return links?.size === 1 && links.has(link.index)
  }
  return found.filter((rule) => isCertain(rule) || isAlone(rule))
}

/** Returns the source address of a rule in the form of `keyOf`. */
export function sourceOf({ src }: Rule): string {
  return src ? keyOf(src.ip) : ""
}

/**
 * The kernel's errors for a route that has become impossible, because the container has set its interface down, moved
 * the interface, or changed its addresses. Such a route is deleted.
 */
const outdated = ["ENETDOWN", "ENODEV", "EINVAL", "ENETUNREACH", "EHOSTUNREACH"] as const

/**
 * Moves the routes of the rules' tables, and those of `TABLE_OF_UNUSED`, back to table main. Routes that have become
 * impossible are deleted, and so are the routes that sbr added. Routes that the container itself added to these tables
 * are moved too, which is safe, because the container may change table main anyway. Throws `NetlinkError`.
 */
export function restoreRoutes(inside: NetlinkSocket, link: Link, rules: readonly Rule[]): void {
  const tables = new Set([TABLE_OF_UNUSED, ...rules.map(({ table }) => table)])
  tables.delete(RT_TABLE_MAIN)
  const routes = listRoutesIn(inside, link, tables)
  addRoutesBack(
    inside,
    routes.filter(({ protocol }) => protocol !== RTPROT_SBR),
    { tolerated: outdated },
  )
  const made = listRoutesOf(inside, link, { table: RT_TABLE_MAIN, protocol: RTPROT_SBR })
  deleteRoutes(inside, [...routes, ...made])
}

/** The number up to which tables are requested one by one. An interface has one table per address. */
const FEW = 8

function listRoutesIn(inside: NetlinkSocket, link: Link, tables: ReadonlySet<number>): ListedRoute[] {
  if (tables.size <= FEW) return [...tables].flatMap((table) => listRoutesOf(inside, link, { table }))
  return listRoutesOf(inside, link).filter(({ table }) => tables.has(table))
}
