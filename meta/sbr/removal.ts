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

/** The interface whose rules are removed, as far as it is known. */
export interface Sources {
  link: Link | undefined
  /** The addresses that it has, or had. */
  ips: readonly Uint8Array[]
  /** The addresses of all interfaces. */
  allIps: readonly Uint8Array[]
  /** The configuration's. */
  table: number | undefined
}

/**
 * The rules of an interface: for one of its addresses, and made here, or leading to the configuration's table, or to one with
 * routes of this interface alone; and what was made here for an address that no interface has any more. Throws `NetlinkError`.
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

/** The source of a rule, as `keyOf` has it. */
export function sourceOf({ src }: Rule): string {
  return src ? keyOf(src.ip) : ""
}

/**
 * What the kernel says of a route whose interface the container has taken down, moved, or given other addresses since: with
 * what it has changed the route is deleted, too.
 */
const outdated = ["ENETDOWN", "ENODEV", "EINVAL", "ENETUNREACH", "EHOSTUNREACH"] as const

/**
 * Puts the routes of the rules' tables back into table main, and those that no address had a use for, but for those that the
 * container has made impossible; and deletes those that were made here. What a container writes into these tables comes into its
 * main table, which it may write itself. Throws `NetlinkError`.
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

/** So many tables are asked for one by one; an interface has one for each address. */
const FEW = 8

function listRoutesIn(inside: NetlinkSocket, link: Link, tables: ReadonlySet<number>): ListedRoute[] {
  if (tables.size <= FEW) return [...tables].flatMap((table) => listRoutesOf(inside, link, { table }))
  return listRoutesOf(inside, link).filter(({ table }) => tables.has(table))
}
