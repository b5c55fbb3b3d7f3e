import {
  type Ifindex,
  type Link,
  type ListedRoute,
  linkData,
  listLinks,
  listRoutes,
  listRoutingTables,
  listRules,
  type NetlinkSocket,
  type RouteFilter,
  type RouteSpec,
  RT_TABLE_LOCAL,
  RT_TABLE_MAIN,
  RTN_UNICAST,
} from "../netlink/mod.ts"
import { AF_INET, FAMILIES, familyOf } from "../types/mod.ts"

/** Marks the rules and routes of sbr, `proto 67`: no routing daemon has this number, <linux/rtnetlink.h>. */
export const RTPROT_SBR = 67

const RT_TABLE_DEFAULT = 253

/** A selection among the routes of a link. */
export type LinkRouteFilter = Pick<RouteFilter, "table" | "protocol" | "prefixes">

/**
 * The unicast routes of a link, like `ip route show dev NAME table TABLE`, of both families; of all tables without one. Of a
 * route of IPv6 with several next hops each counts as a route, since each can be taken away by itself; one of IPv4 counts if all
 * of its next hops are by the link. Throws `NetlinkError`.
 */
export function listRoutesOf(
  inside: NetlinkSocket,
  link: Pick<Link, "index">,
  wanted: LinkRouteFilter = {},
): ListedRoute[] {
  const filter = { ...wanted, index: link.index, type: RTN_UNICAST }
  const routes = FAMILIES.flatMap((family) => listRoutes(inside, family, filter))
  return routes.flatMap((route) => hopsBy(link.index, route))
}

function hopsBy(link: Ifindex, { nextHops, ...route }: ListedRoute): ListedRoute[] {
  if (!nextHops) return route.index === link ? [route] : []
  const hops = nextHops.filter(({ index }) => index === link)
  if (familyOf(route.dst) === AF_INET) return hops.length === nextHops.length ? [{ ...route, nextHops }] : []
  return hops.map(({ gateway }) => ({ ...route, ...(gateway ? { gateway } : {}), index: link }))
}

/** In the order in which the kernel takes them: those on the link first, so that gateways can be reached. */
export function gatewaysLast<R extends RouteSpec>(routes: readonly R[]): R[] {
  const isByGateway = ({ gateway, nextHops }: R) => gateway !== undefined || nextHops !== undefined
  return [...routes.filter((route) => !isByGateway(route)), ...routes.filter(isByGateway)]
}

/** The routing tables that a VRF has, that a rule leads to, or that a route is in; and those that are the kernel's. */
export function usedTables(inside: NetlinkSocket): Set<number> {
  const used = new Set([0, RT_TABLE_DEFAULT, RT_TABLE_MAIN, RT_TABLE_LOCAL])
  for (const vrf of listLinks(inside, undefined, { kind: "vrf" })) used.add(linkData(vrf, "vrf")?.table ?? 0)
  for (const family of FAMILIES) {
    for (const { table } of listRules(inside, family)) used.add(table)
    for (const table of listRoutingTables(inside, family).keys()) used.add(table)
  }
  return used
}

/** The first table from a number on that is not used. */
export function freeTable(used: ReadonlySet<number>, first: number): number {
  let table = first
  while (used.has(table)) table++
  return table
}
