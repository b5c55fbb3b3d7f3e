import { listRoutesOf } from "../../pkg/ip/mod.ts"
import {
  type Address,
  IFA_F_NODAD,
  IFA_F_TEMPORARY,
  IFA_F_TENTATIVE,
  IFF_UP,
  type Link,
  listAddresses,
  type NetlinkSocket,
  RouteScope,
  type RouteSpec,
  RT_TABLE_LOCAL,
  RTPROT_KERNEL,
  RTPROT_RA,
} from "../../pkg/netlink/mod.ts"
import { AF_INET6, keyOf } from "../../pkg/types/mod.ts"

/** <linux/if.h>: the link has a carrier. */
const IFF_LOWER_UP = 0x10000

/** The addresses and routes that a link loses when its master changes: the kernel sets it down and up, and removes IPv6 also from a link that is down. */
export interface Losable {
  /** Routes of the table that the link leaves, which go to the one that it comes to. */
  routes: RouteSpec[]
  /** Routes of other tables, which they go back to. */
  otherRoutes: RouteSpec[]
  /** The destinations of the kernel's own routes: it makes one for each address, also where an earlier plugin has deleted it. */
  connected: ReadonlySet<string>
  /** Those of IPv6, in any state. */
  addresses: Address[]
  /** Those of them that the caller or a route needs, and that can be used before, so that they can be used again. */
  awaited: Address[]
}

/**
 * Notes what `moveLink` has to keep; `table` is the one that the link leaves, and `needed` are the addresses that have to be ready
 * when it has moved. Throws `NetlinkError`.
 */
export function noteLosable(
  inside: NetlinkSocket,
  link: Link,
  { table, needed }: { table: number; needed: readonly Uint8Array[] },
): Losable {
  const all = listRoutesOf(inside, link).filter((route) => route.table !== RT_TABLE_LOCAL)
  const isKept = ({ protocol }: RouteSpec) => protocol !== RTPROT_KERNEL && protocol !== RTPROT_RA
  const routes = all.filter((route) => route.table === table && isKept(route))
  const otherRoutes = all.filter((route) => route.table !== table)
  const addresses = listAddresses(inside, link, AF_INET6).filter(isLost)
  const sources = [...routes, ...otherRoutes].flatMap(({ preferredSource }) => preferredSource ?? [])
  const isNeeded = keysOf([...needed, ...sources])
  const awaited = addresses.filter((address) => isNeeded.has(keyOf(address.ip)) && canBeReady(link, address))
  const connected = new Set(all.filter((route) => route.table === table && !isKept(route)).map(destinationOf))
  return { routes, otherRoutes, connected, addresses, awaited }
}

/** The destination of a route as the key of a set. */
export function destinationOf({ dst, prefix }: RouteSpec): string {
  return `${keyOf(dst)}/${prefix}`
}

/** The kernel makes temporary addresses (RFC 8981) by itself. */
function isLost({ flags }: Address): boolean {
  return (flags & IFA_F_TEMPORARY) === 0
}

/** One that is tentative was not ready before; duplicate address detection begins when the link is up and has a carrier. */
function canBeReady({ flags: linkFlags }: Link, { flags, scope }: Address): boolean {
  if (scope !== RouteScope.Universe || (flags & IFA_F_TENTATIVE) !== 0 || (linkFlags & IFF_UP) === 0) return false
  return (linkFlags & IFF_LOWER_UP) !== 0 || (flags & IFA_F_NODAD) !== 0
}

/** The keys of addresses. */
export function keysOf(ips: readonly Uint8Array[]): Set<string> {
  return new Set(ips.map(keyOf))
}
