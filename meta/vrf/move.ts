import { addRouteIfMissing, gatewaysLast, listRoutesOf, waitUntil } from "../../pkg/ip/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import {
  type Address,
  addAddress,
  deleteRoute,
  IFA_F_DADFAILED,
  IFA_F_NODAD,
  IFA_F_PERMANENT,
  IFA_F_TENTATIVE,
  IFF_UP,
  type Ifindex,
  type Link,
  listAddresses,
  listRoutes,
  type NetlinkSocket,
  RouteGroup,
  RouteScope,
  RouteSocket,
  type RouteSpec,
  RT_TABLE_LOCAL,
  setLink,
} from "../../pkg/netlink/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import { findSysctl, tryWriteSysctl } from "../../pkg/sysctl/mod.ts"
import { AF_INET6, CniError, Code, formatIp, sameBytes } from "../../pkg/types/mod.ts"

/** RTPROT_*, <linux/rtnetlink.h>: such routes come back by themselves. */
const RTPROT_KERNEL = 2
const RTPROT_RA = 9

/** As the scaffold of interface plugins waits for duplicate address detection. */
const ADDRESSES_DEADLINE_MS = 5000

/** A container's interface, seen from inside its namespace. */
export interface Inside {
  sandbox: Netns
  inside: NetlinkSocket
  link: Link
}

/** What a link loses when the kernel takes it down and up to change its master. */
export interface Losable {
  /** Routes of the table that the link leaves, which go to the one that it comes to. */
  routes: RouteSpec[]
  /** Routes of other tables, which they go back to. */
  otherRoutes: RouteSpec[]
  /** Those of IPv6 that are ready to be used. */
  addresses: Address[]
}

/** Notes what `moveLink` has to keep; `table` is the one that the link leaves. Throws `NetlinkError`. */
export function noteLosable(inside: NetlinkSocket, link: Link, table: number): Losable {
  const all = listRoutesOf(inside, link).filter((route) => route.table !== RT_TABLE_LOCAL)
  const isKept = ({ protocol }: RouteSpec) => protocol !== RTPROT_KERNEL && protocol !== RTPROT_RA
  const isUsable = ({ flags, scope }: Address) =>
    scope === RouteScope.Universe && (flags & IFA_F_PERMANENT) !== 0 && (flags & IFA_F_TENTATIVE) === 0
  return {
    routes: all.filter((route) => route.table === table && isKept(route)),
    otherRoutes: all.filter((route) => route.table !== table),
    addresses: link.flags & IFF_UP ? listAddresses(inside, link, AF_INET6).filter(isUsable) : [],
  }
}

/** Where a link goes: 0 is no VRF. */
export interface Move {
  master: Ifindex | 0
  fromTable: number
  toTable: number
}

/**
 * Puts a link into a VRF or out of it, like `ip link set NAME master VRF`, and gives it back what it loses by that. Returns when its IPv6 addresses can be used. What it has done already when
 * it throws is taken back by doing the reverse. Throws `CniError`, with code 11 when the addresses are not ready in time.
 */
export function moveLink(
  { sandbox, inside, link }: Inside,
  { master, fromTable, toTable }: Move,
  { routes, otherRoutes, addresses }: Losable,
): void {
  const groups = RouteGroup.Link | RouteGroup.Ipv6Address | RouteGroup.Ipv6Route
  using events = addresses.length > 0 ? sandbox.run(() => RouteSocket.subscribe(groups)) : undefined
  const setMaster = () => {
    try {
      setLink(inside, link, { master })
    } catch (cause) {
      throw new CniError(Code.Internal, `Cannot change the VRF of "${link.name}"`, { cause })
    }
  }
  if (events) keepingAddresses(sandbox, link, setMaster)
  else setMaster()
  if (fromTable !== toTable) deleteLeftovers(inside, link, fromTable)
  if (events) {
    addMissing(inside, link, addresses)
    waitForAddresses(inside, link, master === 0 ? RT_TABLE_LOCAL : toTable, addresses, events)
  }
  for (const route of gatewaysLast([...routes.map((route) => ({ ...route, table: toTable })), ...otherRoutes])) {
    try {
      addRouteIfMissing(inside, route)
    } catch (cause) {
      throw new CniError(Code.Internal, `Cannot add a route of "${link.name}" to table ${route.table}`, { cause })
    }
  }
}

/**
 * Where the kernel has put a route of IPv6 together with those of other links, it keeps this link's part, which would come back
 * to life in a table that is no longer the link's.
 */
function deleteLeftovers(inside: NetlinkSocket, link: Link, table: number): void {
  for (const route of listRoutesOf(inside, link, { table })) {
    try {
      deleteRoute(inside, route)
    } catch (error) {
      if (!isErrno(error, "ESRCH")) throw error
    }
  }
}

/** Has the kernel keep the link's permanent IPv6 addresses with all that belongs to them, where /proc/sys can be written. */
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

function addMissing(inside: NetlinkSocket, link: Link, addresses: readonly Address[]): void {
  const present = listAddresses(inside, link, AF_INET6)
  for (const { ip, prefix, flags } of addresses) {
    if (present.some((address) => sameBytes(address.ip, ip))) continue
    addAddress(inside, link, { ip, prefix, noDad: (flags & IFA_F_NODAD) !== 0 })
  }
}

/** An address can be used when it is no longer tentative, and its local route is in the table. */
function waitForAddresses(
  inside: NetlinkSocket,
  link: Link,
  table: number,
  wanted: readonly Address[],
  events: RouteSocket,
): void {
  let missing: readonly Address[] = wanted
  const ready = waitUntil(events, ADDRESSES_DEADLINE_MS, () => {
    const present = listAddresses(inside, link, AF_INET6)
    const local = listRoutes(inside, AF_INET6, { table, prefixes: new Set([128]) })
    missing = wanted.filter(({ ip }) => {
      const found = present.find((address) => sameBytes(address.ip, ip))
      if (found && (found.flags & IFA_F_DADFAILED) !== 0) {
        throw new CniError(Code.Internal, `Cannot use ${formatIp(ip)} on "${link.name}": another host has it`)
      }
      if (!found || (found.flags & IFA_F_TENTATIVE) !== 0) return true
      return !local.some(({ dst, index }) => index === link.index && sameBytes(dst, ip))
    })
    return missing.length === 0
  })
  if (ready) return
  const reason = `it is not ready in table ${table} within ${ADDRESSES_DEADLINE_MS} ms`
  throw new CniError(
    Code.TryAgainLater,
    `Cannot use ${missing.map(({ ip }) => formatIp(ip)).join(", ")} on "${link.name}": ${reason}`,
  )
}
