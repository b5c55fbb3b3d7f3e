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

/** `proto 67`, which marks the rules and routes of sbr. No routing daemon uses this number, <linux/rtnetlink.h>. */
export const RTPROT_SBR = 67

const RT_TABLE_DEFAULT = 253

/** Criteria that select routes of a link. */
export type LinkRouteFilter = Pick<RouteFilter, "table" | "protocol" | "prefixes">

/**
 * Returns the unicast routes of a link in both families, like `ip route show dev NAME table TABLE`; without `table`,
 * the routes in all tables. Each next hop of an IPv6 multipath route is returned as a route of its own, because it can
 * be deleted by itself. An IPv4 multipath route is included only if all of its next hops use the link. Throws
 * `NetlinkError`.
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

/** Sorts routes into an order that the kernel accepts: first those without a gateway, which make gateways reachable. */
export function gatewaysLast<R extends RouteSpec>(routes: readonly R[]): R[] {
  const isByGateway = ({ gateway, nextHops }: R) => gateway !== undefined || nextHops !== undefined
  return [...routes.filter((route) => !isByGateway(route)), ...routes.filter(isByGateway)]
}

/** Returns the numbers of the routing tables that a VRF, a rule, a route, or the kernel uses. */
export function usedTables(inside: NetlinkSocket): Set<number> {
  const used = new Set([0, RT_TABLE_DEFAULT, RT_TABLE_MAIN, RT_TABLE_LOCAL])
  for (const vrf of listLinks(inside, undefined, { kind: "vrf" })) used.add(linkData(vrf, "vrf")?.table ?? 0)
  for (const family of FAMILIES) {
    for (const { table } of listRules(inside, family)) used.add(table)
    for (const table of listRoutingTables(inside, family).keys()) used.add(table)
  }
  return used
}

/** Returns the smallest unused table number that is not less than `first`. */
export function freeTable(used: ReadonlySet<number>, first: number): number {
  let table = first
  while (used.has(table)) table++
  return table
}
