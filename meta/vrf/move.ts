import { gatewaysLast, listRoutesOf, waitUntil } from "../../pkg/ip/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import {
  type Address,
  executeAll,
  IFA_F_DADFAILED,
  IFA_F_NODAD,
  IFA_F_TEMPORARY,
  IFA_F_TENTATIVE,
  IFF_UP,
  type Ifindex,
  type Link,
  listAddresses,
  listRoutes,
  type Message,
  type NetlinkSocket,
  RouteGroup,
  RouteScope,
  RouteSocket,
  type RouteSpec,
  RT_TABLE_LOCAL,
  RTM_NEWADDR,
  RTM_NEWROUTE,
  RTPROT_KERNEL,
  RTPROT_RA,
  readAddress,
  readRoute,
  setLink,
  throwFirst,
  toAddRoute,
  toDeleteRoute,
  toRestoreAddress,
} from "../../pkg/netlink/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import { findSysctl, tryWriteSysctl } from "../../pkg/sysctl/mod.ts"
import { AF_INET6, CniError, Code, formatIp, keyOf, orCannot } from "../../pkg/types/mod.ts"

/** <linux/if.h>: the link has a carrier. */
const IFF_LOWER_UP = 0x10000

/**
 * The addresses and routes that a link loses when its master changes: the kernel sets it down and up, and removes IPv6
 * also from a link that is down.
 */
interface Losable {
  /** Routes to move from the link's former table to its new one. */
  routes: RouteSpec[]
  /** Routes of other tables, which they go back to. */
  otherRoutes: RouteSpec[]
  /**
   * The destinations of the kernel's own routes: it makes one for each address, also where an earlier plugin has
   * deleted it.
   */
  connected: ReadonlySet<string>
  /** Those of IPv6, in any state. */
  addresses: Address[]
  /** Those of them that the caller or a route needs, and that can be used before, so that they can be used again. */
  awaited: Address[]
}

/**
 * Records the state that `moveLink` must preserve. `table` is the link's present table, and `needed` are the addresses
 * that must be usable after the move. Throws `NetlinkError`.
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
function destinationOf({ dst, prefix }: RouteSpec): string {
  return `${keyOf(dst)}/${prefix}`
}

/** The kernel creates temporary addresses (RFC 8981) itself. */
function isLost({ flags }: Address): boolean {
  return (flags & IFA_F_TEMPORARY) === 0
}

/**
 * One that is tentative was not ready before; duplicate address detection begins when the link is up and has a carrier.
 */
function canBeReady({ flags: linkFlags }: Link, { flags, scope }: Address): boolean {
  if (scope !== RouteScope.Universe || (flags & IFA_F_TENTATIVE) !== 0 || (linkFlags & IFF_UP) === 0) return false
  return (linkFlags & IFF_LOWER_UP) !== 0 || (flags & IFA_F_NODAD) !== 0
}

/** The keys of addresses. */
export function keysOf(ips: readonly Uint8Array[]): Set<string> {
  return new Set(ips.map(keyOf))
}

/** Waits for duplicate address detection, as the scaffold of interface plugins does. */
const ADDRESSES_DEADLINE_MS = 5000

/** A container's interface, seen from inside its namespace. */
export interface Inside {
  sandbox: Netns
  inside: NetlinkSocket
  link: Link
}

/** The master of a link: 0 is no VRF. */
export interface Move {
  master: Ifindex | 0
  fromTable: number
  toTable: number
}

/**
 * Moves a link into a VRF or out of it, like `ip link set NAME master VRF`, and restores its lost addresses and routes.
 * Returns when the awaited addresses can be used. Undoes the move before it throws. Throws `CniError`, with code 11 if
 * the addresses are not usable in time, and `NetlinkError`.
 */
export function moveLink(
  { sandbox, inside, link }: Inside,
  { master, fromTable, toTable }: Move,
  { routes, otherRoutes, connected, addresses, awaited }: Losable,
): void {
  const groups = RouteGroup.Ipv6Address | RouteGroup.Ipv6Route
  using events = awaited.length > 0 ? sandbox.run(() => RouteSocket.subscribe(groups)) : undefined
  const setMaster = () => orCannot(`Cannot change the VRF of "${link.name}"`, () => setLink(inside, link, { master }))
  if (addresses.length > 0) keepingAddresses(sandbox, link, setMaster)
  else setMaster()
  // If the kernel has merged an IPv6 route with those of other links, it keeps this link's part, which would become
  // active again in a table that no longer belongs to the link.
  const leftovers = fromTable === toTable ? [] : listRoutesOf(inside, link, { table: fromTable })
  throwFirst(executeAll(inside, leftovers.map(toDeleteRoute)), "ESRCH")
  if (addresses.length > 0) restoreAddresses(inside, link, addresses)
  const made = fromTable === toTable ? [] : listRoutesOf(inside, link, { table: toTable, protocol: RTPROT_KERNEL })
  const unwanted = made.filter((route) => !connected.has(destinationOf(route)))
  throwFirst(executeAll(inside, unwanted.map(toDeleteRoute)), "ESRCH")
  if (events) waitForAddresses({ inside, link, events }, master === 0 ? RT_TABLE_LOCAL : toTable, awaited)
  const back = gatewaysLast([...routes.map((route) => ({ ...route, table: toTable })), ...otherRoutes])
  const refusals = executeAll(
    inside,
    back.map((route) => toAddRoute(route, "append")),
  )
  const [first] = refusals.filter(({ error }) => !isErrno(error, "EEXIST"))
  if (!first) return
  const { table } = first.request.spec
  throw new CniError(Code.Internal, `Cannot add a route of "${link.name}" to table ${table}`, { cause: first.error })
}

/** Makes the kernel keep the link's permanent IPv6 addresses and their routes, if /proc/sys is writable. */
function keepingAddresses(sandbox: Netns, { name }: Link, change: () => void): void {
  const sysctl = `net/ipv6/conf/${name}/keep_addr_on_down`
  const before = sandbox.run(() => {
    const found = findSysctl(sysctl)
    tryWriteSysctl(sysctl, "1")
    return found
  })
  try {
    change()
  } finally {
    if (before !== undefined) sandbox.run(() => void tryWriteSysctl(sysctl, before))
  }
}

/** Those that the kernel has not kept, such as link-local ones and those with a lifetime. */
function restoreAddresses(inside: NetlinkSocket, link: Link, addresses: readonly Address[]): void {
  const present = keysOf(listAddresses(inside, link, AF_INET6).map(({ ip }) => ip))
  const lost = addresses.filter(({ ip }) => !present.has(keyOf(ip)))
  for (const { request, error } of executeAll(inside, lost.map(toRestoreAddress))) {
    if (isErrno(error, "EEXIST")) continue // the kernel creates a link-local one itself
    throw new CniError(Code.Internal, `Cannot restore the addresses of "${link.name}": ${request.what}`, {
      cause: error,
    })
  }
}

/** An address can be used when it is no longer tentative, and its local route is in the table. */
function waitForAddresses(
  { inside, link, events }: { inside: NetlinkSocket; link: Link; events: RouteSocket },
  table: number,
  wanted: readonly Address[],
): void {
  let missing: readonly Address[] = wanted
  const ready = waitUntil(
    events,
    ADDRESSES_DEADLINE_MS,
    () => {
      const present = new Map(listAddresses(inside, link, AF_INET6).map(({ ip, flags }) => [keyOf(ip), flags]))
      const local = listRoutes(inside, AF_INET6, { table, index: link.index, prefixes: new Set([128]) })
      const routed = keysOf(local.map(({ dst }) => dst))
      missing = wanted.filter(({ ip }) => {
        const flags = present.get(keyOf(ip)) ?? IFA_F_TENTATIVE
        if ((flags & IFA_F_DADFAILED) !== 0) {
          throw new CniError(Code.Internal, `Cannot use ${formatIp(ip)} on "${link.name}": another host has it`)
        }
        return (flags & IFA_F_TENTATIVE) !== 0 || !routed.has(keyOf(ip))
      })
      return missing.length === 0
    },
    isAbout(wanted),
  )
  if (ready) return
  const reason = `it was not ready in table ${table} within ${ADDRESSES_DEADLINE_MS} ms`
  throw new CniError(
    Code.TryAgainLater,
    `Cannot use ${missing.map(({ ip }) => formatIp(ip)).join(", ")} on "${link.name}": ${reason}`,
  )
}

/** Whether an event is about one of these addresses, or its local route: a container may have thousands of others. */
function isAbout(addresses: readonly Address[]): (event: Message) => boolean {
  const wanted = keysOf(addresses.map(({ ip }) => ip))
  return (event) => {
    if (event.type === RTM_NEWADDR) return wanted.has(keyOf(readAddress(event).ip))
    return event.type === RTM_NEWROUTE && event.payload[1] === 128 && wanted.has(keyOf(readRoute(event).dst))
  }
}
