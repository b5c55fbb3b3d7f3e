import {
  findLink,
  type Ifindex,
  type Link,
  type ListedRoute,
  listAddresses,
  listRoutes,
  type NetlinkSocket,
  type RouteSpec,
  RT_TABLE_MAIN,
} from "../netlink/mod.ts"
import { type Cidr, CniError, Code, familyOf, formatCidr, formatIp, type Result, sameBytes } from "../types/mod.ts"
import { planRoutes } from "./result.ts"

/** Returns the error of a failed CHECK, with the expected and the found value. */
export function mismatch(what: string, expected: string, found: string): CniError {
  return new CniError(Code.Internal, `Check of ${what} failed: expected ${expected}, found ${found}`)
}

/** Checks that a link has these addresses, with their prefix lengths. Throws `CniError` for the first missing one. */
export function checkAddresses(route: NetlinkSocket, link: Link, addresses: readonly Cidr[]): void {
  const found = listAddresses(route, link)
  for (const wanted of addresses) {
    if (found.some(({ ip, prefix }) => prefix === wanted.prefix && sameBytes(ip, wanted.ip))) continue
    const present = found.map(formatCidr).join(", ") || "none"
    throw mismatch(`addresses of "${link.name}"`, formatCidr(wanted), present)
  }
}

/** Checks a result's routes in their tables, like `checkRouteSpecs`. Throws `CniError` for the first missing one. */
export function checkRoutes(route: NetlinkSocket, link: Link, result: Pick<Result, "ips" | "routes">): void {
  checkRouteSpecs(route, planRoutes(result, link))
}

/**
 * Checks that routes are in their tables. Compares the destination, the gateways, and for a route without a gateway the
 * link. A later plugin of the chain may have redirected a default route, so any default route in the table is accepted.
 * Also, sbr or vrf may have moved a route from table main to another table; such a route must use the same link. Throws
 * `CniError` for the first missing route.
 */
export function checkRouteSpecs(route: NetlinkSocket, planned: readonly RouteSpec[]): void {
  const listed = new Map<string, ListedRoute[]>()
  const prefixes = new Set(planned.map(({ prefix }) => prefix))
  const isWanted = (route: ListedRoute) => planned.some((one) => isToSame(one, route))
  for (const wanted of planned) {
    const family = familyOf(wanted.dst)
    const table = wanted.table ?? RT_TABLE_MAIN
    const inTable = listed.get(`${family} ${table}`) ?? listRoutes(route, family, { table, prefixes, isWanted })
    listed.set(`${family} ${table}`, inTable)
    if (inTable.some((found) => matches(wanted, found))) continue
    if (wanted.table === undefined && isMoved(route, wanted)) continue
    const same = inTable.filter((found) => isToSame(wanted, found))
    const describe = (spec: RouteSpec) => describeRoute(route, spec)
    throw mismatch("routes", describe(wanted), same.map(describe).join(", ") || "no route to it")
  }
}

function isMoved(route: NetlinkSocket, wanted: RouteSpec): boolean {
  const isWanted = (found: ListedRoute) =>
    matches(wanted, found) && linksOf(found).some((index) => linksOf(wanted).includes(index))
  return listRoutes(route, familyOf(wanted.dst), { prefixes: new Set([wanted.prefix]), isWanted }).length > 0
}

function linksOf({ index, nextHops = [] }: RouteSpec): (Ifindex | undefined)[] {
  return nextHops.length > 0 ? nextHops.map((hop) => hop.index) : [index]
}

function isToSame(a: RouteSpec, b: RouteSpec): boolean {
  return a.prefix === b.prefix && sameBytes(a.dst, b.dst)
}

function matches(wanted: RouteSpec, found: ListedRoute): boolean {
  if (!isToSame(found, wanted)) return false
  if (wanted.prefix === 0) return true
  const gateways = gatewaysOf(found)
  const expected = gatewaysOf(wanted)
  if (expected.length === 0) return gateways.length === 0 && found.index === wanted.index
  return expected.every((gateway) => gateways.includes(gateway))
}

function gatewaysOf({ gateway, nextHops }: RouteSpec): string[] {
  const hops = nextHops?.flatMap((hop) => (hop.gateway ? [hop.gateway] : [])) ?? []
  return [...(gateway ? [gateway] : []), ...hops].map(formatIp)
}

/** Formats a route as `ip route` prints it. */
function describeRoute(route: NetlinkSocket, spec: RouteSpec): string {
  const to = spec.prefix === 0 ? "default" : formatCidr({ ip: spec.dst, prefix: spec.prefix })
  const via = gatewaysOf(spec).map((gateway) => ` via ${gateway}`)
  const device = spec.index === undefined ? "" : ` dev ${findLink(route, spec.index)?.name ?? `number ${spec.index}`}`
  const table = spec.table === undefined || spec.table === RT_TABLE_MAIN ? "" : ` table ${spec.table}`
  return `${to}${via.join("")}${device}${table}`
}
