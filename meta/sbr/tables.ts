import { freeTable, gatewaysLast, listRoutesOf, type ResultAddress, RTPROT_SBR, usedTables } from "../../pkg/ip/mod.ts"
import { type ErrnoName, isErrno } from "../../pkg/libc/mod.ts"
import {
  addRule,
  executeAll,
  type Link,
  type ListedRoute,
  type NetlinkSocket,
  RouteScope,
  type RouteSpec,
  RT_TABLE_MAIN,
  type Rule,
  throwFirst,
  toAddRoute,
  toDeleteRoute,
  toDeleteRule,
} from "../../pkg/netlink/mod.ts"
import { AF_INET6, CniError, Code, contains, familyOf, isLinkLocal, networkOf, sameBytes } from "../../pkg/types/mod.ts"
import type { Undo } from "../../pkg/undo/mod.ts"
import type { SbrConfig } from "./config.ts"

const FIRST_TABLE = 100
/**
 * The table that keeps routes for DEL: those that ADD removes from table main and that apply to no address, such as a
 * default route through another gateway than the configured one. No rule selects it.
 */
export const TABLE_OF_UNUSED = 67_000
/** `IP6_RT_PRIO_USER`: the default metric of an IPv6 route. */
const IPV6_METRIC = 1024

/** Adds a rule for a source address, like `ip rule add from 10.1.0.5 lookup 100 proto 67`. */
export function addSourceRule(inside: NetlinkSocket, ip: Uint8Array, table: number, undo: Undo): void {
  const rule: Rule = { family: familyOf(ip), src: { ip, prefix: ip.length * 8 }, table, protocol: RTPROT_SBR }
  undo.defer(
    "add a rule",
    () => deleteRules(inside, [rule]),
    () => addRule(inside, rule),
  )
}

/** Deletes rules, some of which may no longer exist. Throws `NetlinkError`. */
export function deleteRules(inside: NetlinkSocket, rules: readonly Rule[]): void {
  throwFirst(executeAll(inside, rules.map(toDeleteRule)), "ENOENT")
}

/**
 * Gives each address its own table, and a rule that selects the table. The table gets the interface's routes that apply
 * to the address, and a default route through the address's gateway. Then removes the interface's routes from table
 * main, except link-local ones; each removed route is in another table by then. Throws `NetlinkError`.
 */
export function routeBySource(
  { inside, link, addresses }: { inside: NetlinkSocket; link: Link; addresses: readonly ResultAddress[] },
  { gateways, addSourceHints }: SbrConfig,
  undo: Undo,
): void {
  const main = listRoutesOf(inside, link, { table: RT_TABLE_MAIN })
  const used = usedTables(inside)
  let next = FIRST_TABLE
  const planned = addresses.map((address) => {
    const routes = planTable(address, gatewayFor(address, addresses, gateways), main, link)
    const table = freeTable(used, next)
    next = table + 1
    return { ip: address.ip, table, routes }
  })
  const takenOut = main.filter((route) => !isLinkLocalRoute(route))
  const inTables = new Set(planned.flatMap(({ routes }) => routes))
  const unused = takenOut.filter((route) => !inTables.has(route)).map((route) => ({ ...route, table: TABLE_OF_UNUSED }))
  addRoutes(inside, gatewaysLast(unused), undo, true) // a killed ADD may have left some of these routes
  for (const { ip, table, routes } of planned) {
    addSourceRule(inside, ip, table, undo)
    addRoutes(
      inside,
      routes.map((route) => ({ ...route, table })),
      undo,
    )
  }
  if (addSourceHints) {
    addRoutes(
      inside,
      addresses.map((address) => sourceHint(address, link)),
      undo,
    )
  }
  undo.defer("take routes out of table main", () => addRoutesBack(inside, takenOut, { isBounded: false }))
  throwFirst(executeAll(inside, takenOut.map(toDeleteRoute)))
}

/**
 * Returns the gateway for an address's table. If the configured gateway is in the network of an address, it serves only
 * addresses of that network. If it is in none of the networks, it serves all addresses of its family.
 */
export function gatewayFor(
  address: ResultAddress,
  all: readonly ResultAddress[],
  gateways: SbrConfig["gateways"],
): Uint8Array | undefined {
  const given = gateways.get(familyOf(address.ip))
  const isElsewhere = given && !contains(address, given) && all.some((other) => contains(other, given))
  return (isElsewhere ? undefined : given) ?? address.gateway
}

type Limits = NonNullable<Parameters<typeof executeAll>[2]>

/** Adds routes, even if others have the same destination, as a source hint and the kernel's network route do. */
function addRoutes(inside: NetlinkSocket, routes: readonly RouteSpec[], undo: Undo, mayBeThere = false): void {
  const made = new Set(routes)
  undo.defer("add routes", () => deleteRoutes(inside, [...made], { isBounded: false })) // registered first: routes may exist although the kernel's answer was lost
  const refusals = executeAll(
    inside,
    routes.map((route) => toAddRoute(route, "append")),
  )
  for (const { request, error } of refusals) if (isErrno(error, "EEXIST")) made.delete(request.spec)
  const [first] = refusals.filter(({ error }) => !mayBeThere || !isErrno(error, "EEXIST"))
  if (!first) return
  const table = first.request.spec.table ?? RT_TABLE_MAIN
  throw new CniError(Code.Internal, `Cannot add a route to table ${table}`, { cause: first.error })
}

/** Deletes routes. Routes or links that no longer exist are ignored. Throws `NetlinkError`. */
export function deleteRoutes(inside: NetlinkSocket, routes: readonly RouteSpec[], limits: Limits = {}): void {
  throwFirst(executeAll(inside, routes.map(toDeleteRoute), limits), "ESRCH", "ENODEV")
}

/** Adds former routes back to table main unless they exist. Throws `NetlinkError`. */
export function addRoutesBack(
  inside: NetlinkSocket,
  routes: readonly RouteSpec[],
  { tolerated = [], ...limits }: Limits & { tolerated?: readonly ErrnoName[] } = {},
): void {
  // Routes without a gateway come first, because they make gateways reachable. All tables are sorted together, because
  // a gateway of one table may be reachable by a route of another.
  const wanted = gatewaysLast(routes).map((route) => toAddRoute({ ...route, table: RT_TABLE_MAIN }, "append"))
  throwFirst(executeAll(inside, wanted, limits), "EEXIST", ...tolerated)
}

/** Returns the routes of an address's table: first those without gateway, so that gateways are reachable. */
export function planTable(
  address: ResultAddress,
  gateway: Uint8Array | undefined,
  main: readonly ListedRoute[],
  link: Pick<Link, "index">,
): RouteSpec[] {
  const concerned = main.filter((route) => concerns(route, address))
  if (!gateway) return gatewaysLast(concerned)
  const ownMetric = familyOf(gateway) === AF_INET6 ? IPV6_METRIC : 0
  const isOther = ({ prefix, priority }: RouteSpec) => prefix > 0 || (priority ?? ownMetric) !== ownMetric
  const given = concerned.find((route) => !isOther(route) && isSame(route.gateway, gateway))
  const dst = new Uint8Array(gateway.length)
  const byGateway = given ?? { dst, prefix: 0, gateway, index: link.index, protocol: RTPROT_SBR }
  return gatewaysLast([...concerned.filter(isOther), byGateway])
}

/** Reports whether a route applies to an address: the network has its source or gateway, or it has neither. */
function concerns({ dst, preferredSource, gateway }: RouteSpec, address: ResultAddress): boolean {
  if (familyOf(dst) !== familyOf(address.ip)) return false
  const known = [preferredSource, gateway].flatMap((ip) => ip ?? [])
  return known.length === 0 || known.some((ip) => contains(address, ip))
}

/** Returns the route to the network of an address, like `ip route add 10.1.0.0/16 dev eth0 src 10.1.0.5 scope link`. */
function sourceHint({ ip, prefix }: ResultAddress, { index }: Link): RouteSpec {
  const hint = {
    dst: networkOf({ ip, prefix }),
    prefix,
    index,
    preferredSource: ip,
    scope: RouteScope.Link,
    protocol: RTPROT_SBR,
  }
  // The kernel's own route to the network has another metric. With an explicit metric the reverse deletes only this
  // route.
  return familyOf(ip) === AF_INET6 ? { ...hint, priority: IPV6_METRIC } : hint
}

/** Reports whether a route is link-local, fe80::/64 or 169.254.0.0/16. Packets from all addresses need such routes. */
function isLinkLocalRoute({ dst, prefix }: RouteSpec): boolean {
  if (prefix < 10) return false
  return dst.length === 4 ? dst[0] === 169 && dst[1] === 254 : isLinkLocal(dst)
}

function isSame(a: Uint8Array | undefined, b: Uint8Array): boolean {
  return a !== undefined && sameBytes(a, b)
}
