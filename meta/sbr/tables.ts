import {
  addRouteIfMissing,
  gatewaysLast,
  listRoutesOf,
  type ResultAddress,
  RTPROT_SBR,
  takeTable,
  usedTables,
} from "../../pkg/ip/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import {
  addRoute,
  addRule,
  deleteRoute,
  deleteRule,
  type Link,
  type ListedRoute,
  listRoutes,
  listRules,
  type NetlinkSocket,
  RouteScope,
  type RouteSpec,
  RT_TABLE_MAIN,
  type Rule,
} from "../../pkg/netlink/mod.ts"
import { AF_INET, AF_INET6, CniError, Code, contains, familyOf, networkOf, sameBytes } from "../../pkg/types/mod.ts"
import type { Undo } from "../../pkg/undo/mod.ts"
import type { SbrConfig } from "./config.ts"

const FIRST_TABLE = 100
/** `IP6_RT_PRIO_USER`: the metric of an IPv6 route that was given none. */
const IPV6_METRIC = 1024
const families = [AF_INET, AF_INET6] as const

/** A rule for what has this source, like `ip rule add from 10.1.0.5 lookup 100 proto 67`. */
export function addSourceRule(inside: NetlinkSocket, ip: Uint8Array, table: number, undo: Undo): void {
  const rule: Rule = { family: familyOf(ip), src: { ip, prefix: ip.length * 8 }, table, protocol: RTPROT_SBR }
  undo.step(
    "add a rule",
    () => addRule(inside, rule),
    () => deleteRule(inside, rule),
  )
}

/**
 * Gives each address a table of its own, a rule that leads to it, and in it the interface's routes that concern the address
 * and a default route by its gateway; then takes the interface's routes out of table main, but for link-local ones. Throws
 * `NetlinkError`.
 */
export function routeBySource(
  inside: NetlinkSocket,
  link: Link,
  addresses: readonly ResultAddress[],
  { gateways, addSourceHints }: SbrConfig,
  undo: Undo,
): void {
  const main = listRoutesOf(inside, link, RT_TABLE_MAIN)
  const used = usedTables(inside)
  for (const address of addresses) {
    const table = takeTable(used, FIRST_TABLE)
    addSourceRule(inside, address.ip, table, undo)
    const gateway = gatewayFor(address, addresses, gateways)
    for (const route of planTable(address, gateway, main, link)) addUndoably(inside, { ...route, table }, undo)
  }
  if (addSourceHints) for (const address of addresses) addUndoably(inside, sourceHint(address, link), undo)
  // Those by gateways first: what is undone comes back the other way round, and gateways have to be reached then.
  for (const route of gatewaysLast(main).reverse()) {
    if (isLinkLocal(route)) continue
    undo.defer("take a route out of table main", () => addRouteIfMissing(inside, route))
    deleteRoute(inside, route)
  }
}

/**
 * The gateway of an address' table. One of the configuration that lies in the network of an address is for such addresses
 * alone; another is for all of its family.
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

function addUndoably(inside: NetlinkSocket, route: RouteSpec, undo: Undo): void {
  const takeBack = () => undo.defer("add a route", () => deleteRouteIfThere(inside, route))
  try {
    addRoute(inside, route, "append") // a source hint may stand beside the kernel's own route to the network
  } catch (cause) {
    if (!isErrno(cause, "EEXIST")) takeBack() // it may be there, whatever the kernel has said of it
    throw new CniError(Code.Internal, `Cannot add a route to table ${route.table ?? RT_TABLE_MAIN}`, { cause })
  }
  takeBack()
}

function deleteRouteIfThere(inside: NetlinkSocket, route: RouteSpec): void {
  try {
    deleteRoute(inside, route)
  } catch (error) {
    if (!isErrno(error, "ESRCH", "ENODEV")) throw error
  }
}

/**
 * What the kernel says of a route whose interface the container has taken down, moved, or given other addresses since: with
 * what it has changed the route has gone, too.
 */
const outdated = ["ENETDOWN", "ENODEV", "EINVAL", "ENETUNREACH", "EHOSTUNREACH"] as const

function putBack(inside: NetlinkSocket, route: RouteSpec): void {
  try {
    addRouteIfMissing(inside, { ...route, table: RT_TABLE_MAIN })
  } catch (error) {
    if (!isErrno(error, ...outdated)) throw error
  }
}

/** The routes of an address' table: those on the link first, so that gateways can be reached; the default route last. */
export function planTable(
  address: ResultAddress,
  gateway: Uint8Array | undefined,
  main: readonly ListedRoute[],
  link: Pick<Link, "index">,
): RouteSpec[] {
  const concerned = main.filter((route) => concerns(route, address))
  if (!gateway) return gatewaysLast(concerned)
  const isOther = ({ prefix, priority }: RouteSpec) => prefix > 0 || (priority ?? 0) % IPV6_METRIC !== 0
  const given = concerned.find((route) => !isOther(route) && isSame(route.gateway, gateway))
  const dst = new Uint8Array(gateway.length)
  const byGateway = given ?? { dst, prefix: 0, gateway, index: link.index, protocol: RTPROT_SBR }
  return gatewaysLast([...concerned.filter(isOther), byGateway])
}

/** Whether a route of the interface is for packets from an address: it has its network's source or gateway, or neither. */
function concerns({ dst, preferredSource, gateway }: RouteSpec, address: ResultAddress): boolean {
  if (familyOf(dst) !== familyOf(address.ip)) return false
  const known = [preferredSource, gateway].flatMap((ip) => ip ?? [])
  return known.length === 0 || known.some((ip) => contains(address, ip))
}

/** The network of an address, like `ip route add 10.1.0.0/16 dev eth0 src 10.1.0.5 scope link`. */
function sourceHint({ ip, prefix }: ResultAddress, { index }: Link): RouteSpec {
  const hint = {
    dst: networkOf({ ip, prefix }),
    prefix,
    index,
    preferredSource: ip,
    scope: RouteScope.Link,
    protocol: RTPROT_SBR,
  }
  // Said, so that the reverse does not mean the kernel's own route to the network, which has another metric.
  return familyOf(ip) === AF_INET6 ? { ...hint, priority: IPV6_METRIC } : hint
}

/** fe80::/64 and 169.254.0.0/16: every source needs them. */
function isLinkLocal({ dst, prefix }: RouteSpec): boolean {
  if (prefix < 10) return false
  return dst.length === 4 ? dst[0] === 169 && dst[1] === 254 : dst[0] === 0xfe && ((dst[1] ?? 0) & 0xc0) === 0x80
}

function isSame(a: Uint8Array | undefined, b: Uint8Array): boolean {
  return a !== undefined && sameBytes(a, b)
}

/** What is known of the interface whose rules are to go. */
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
 * routes of this interface alone; and what was made here for an address that no interface has any more.
 */
export function findSourceRules(inside: NetlinkSocket, { link, ips, allIps, table }: Sources): Rule[] {
  const has = (list: readonly Uint8Array[], ip: Uint8Array) => list.some((each) => sameBytes(each, ip))
  const isOwnTable = (rule: Rule) => {
    const routes = listRoutes(inside, rule.family, { table: rule.table })
    return routes.length > 0 && routes.every(({ index }) => index === link?.index)
  }
  return families
    .flatMap((family) => listRules(inside, family))
    .filter((rule) => {
      const { src, protocol } = rule
      if (!src || src.prefix !== src.ip.length * 8) return false
      if (has(ips, src.ip)) return protocol === RTPROT_SBR || rule.table === table || isOwnTable(rule)
      return protocol === RTPROT_SBR && !has(allIps, src.ip)
    })
}

/**
 * Puts the routes of the rules' tables back into table main, but for those that the container has made impossible, and deletes
 * those that were made here.
 */
export function putRoutesBack(inside: NetlinkSocket, link: Link, rules: readonly Rule[]): void {
  const tables = new Set(rules.map(({ table }) => table))
  const routes = [...tables].flatMap((table) => listRoutesOf(inside, link, table))
  // Of all tables at once: a route of one may need a gateway that is reached by another's.
  for (const route of gatewaysLast(routes)) {
    if (route.protocol !== RTPROT_SBR) putBack(inside, route)
  }
  const made = listRoutesOf(inside, link, RT_TABLE_MAIN).filter(({ protocol }) => protocol === RTPROT_SBR)
  for (const route of [...routes, ...made]) deleteRouteIfThere(inside, route)
}
