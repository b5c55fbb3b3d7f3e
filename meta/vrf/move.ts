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
 * The addresses and routes that a link loses when its master changes, because the kernel sets the link down and up
 * again. A link that is already down loses its IPv6 addresses too.
 */
interface Losable {
  /** The routes to move from the table of the link's former VRF to that of its new one. */
  routes: RouteSpec[]
  /** Routes in other tables, which are added back to the same table. */
  otherRoutes: RouteSpec[]
  /**
   * The destinations of the kernel's own routes. Others, which a plugin had deleted, are deleted again after the move.
   */
  connected: ReadonlySet<string>
  /** The IPv6 addresses, in any state. */
  addresses: Address[]
  /** The addresses for which the move waits: usable before, and needed by the caller or as the source of a route. */
  awaited: Address[]
}

/**
 * Records the addresses and routes that `moveLink` must restore. `table` is the table of the link's present VRF, or
 * main. `needed` are the addresses that must be usable after the move. Throws `NetlinkError`.
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

function destinationOf({ dst, prefix }: RouteSpec): string {
  return `${keyOf(dst)}/${prefix}`
}

/** Reports whether an address must be restored. A temporary one (RFC 8981) need not: the kernel creates it itself. */
function isLost({ flags }: Address): boolean {
  return (flags & IFA_F_TEMPORARY) === 0
}

/**
 * Reports whether an address can become usable after the move. A tentative address cannot, because it was not usable
 * before. Duplicate address detection needs a link that is up and has a carrier.
 */
function canBeReady({ flags: linkFlags }: Link, { flags, scope }: Address): boolean {
  if (scope !== RouteScope.Universe || (flags & IFA_F_TENTATIVE) !== 0 || (linkFlags & IFF_UP) === 0) return false
  return (linkFlags & IFF_LOWER_UP) !== 0 || (flags & IFA_F_NODAD) !== 0
}

/** Returns the addresses in the form of `keyOf`. */
export function keysOf(ips: readonly Uint8Array[]): Set<string> {
  return new Set(ips.map(keyOf))
}

/** The longest wait for duplicate address detection, the same as in interface plugins. */
const ADDRESSES_DEADLINE_MS = 5000

/** A container's interface, with its namespace and a socket there. */
export interface Inside {
  sandbox: Netns
  inside: NetlinkSocket
  link: Link
}

/** The new master of a link, 0 for no VRF, and the tables of its routes. */
export interface Move {
  master: Ifindex | 0
  fromTable: number
  toTable: number
}

/**
 * Moves a link into a VRF or out of it, like `ip link set NAME master VRF`, and restores the addresses and routes that
 * the link loses. Returns when the awaited addresses are usable. Throws `CniError`, with code 11 if the addresses are
 * not usable in time, and `NetlinkError`.
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
  // An IPv6 route over several links keeps this link's part in the former table. It would become active again, although
  // the table is no longer the link's.
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

/** Keeps the link's permanent IPv6 addresses and their routes during `change`, if /proc/sys is writable. */
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

/** Adds the addresses that the kernel has not kept, such as link-local ones and those with a lifetime. */
function restoreAddresses(inside: NetlinkSocket, link: Link, addresses: readonly Address[]): void {
  const present = keysOf(listAddresses(inside, link, AF_INET6).map(({ ip }) => ip))
  const lost = addresses.filter(({ ip }) => !present.has(keyOf(ip)))
  for (const { request, error } of executeAll(inside, lost.map(toRestoreAddress))) {
    if (isErrno(error, "EEXIST")) continue // the kernel creates a link-local address itself
    throw new CniError(Code.Internal, `Cannot restore the addresses of "${link.name}": ${request.what}`, {
      cause: error,
    })
  }
}

/** Waits until addresses are usable: no longer tentative, and with their local route in the table. */
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

/** Returns a filter for events about these addresses or their local routes, because there may be thousands more. */
function isAbout(addresses: readonly Address[]): (event: Message) => boolean {
  const wanted = keysOf(addresses.map(({ ip }) => ip))
  return (event) => {
    if (event.type === RTM_NEWADDR) return wanted.has(keyOf(readAddress(event).ip))
    return event.type === RTM_NEWROUTE && event.payload[1] === 128 && wanted.has(keyOf(readRoute(event).dst))
  }
}
