import { addressesOf, planRoutes } from "../../../pkg/ip/mod.ts"
import { unlessErrno } from "../../../pkg/libc/mod.ts"
import {
  addAddress,
  addRoute,
  deleteAddress,
  deleteRoute,
  IFA_F_DADFAILED,
  IFA_F_PERMANENT,
  IFA_F_TENTATIVE,
  IFF_UP,
  type Link,
  type ListedRoute,
  listAddresses,
  listRoutes,
  type RouteSocket,
  type RouteSpec,
  RTPROT_RA,
  setLink,
} from "../../../pkg/netlink/mod.ts"
import { AF_INET6, familyOf, formatIp, isLinkLocal } from "../../../pkg/types/mod.ts"
import { Failures } from "../../../pkg/undo/mod.ts"
import type { DhcpConfig } from "../config.ts"
import { addressOf } from "../protocol/lease4.ts"
import type { Change, Lease } from "../protocol/types.ts"
import { mtuOf, resultOf } from "./result.ts"

/** A container's interface, the lease's configuration, and a socket in the container's namespace. */
export interface Site {
  readonly inside: RouteSocket
  readonly link: Link
  readonly config: DhcpConfig
}

/** Sets the interface's MTU to that of a lease unless they are equal, like `ip link set mtu`. Throws `NetlinkError`. */
export function applyMtu({ inside, link, config }: Site, lease: Lease): void {
  const mtu = mtuOf([lease], config)
  if (mtu !== undefined && mtu !== link.mtu) setLink(inside, link, { mtu })
}

/**
 * Applies a change of a lease to the interface. Performs all steps even after a failure, so that a refused route does
 * not cost the container its address. Throws `CniError` at the end.
 */
export function applyChange(site: Site, change: Change): void {
  const failures = new Failures()
  if (change.kind === "bound") applyLease(site, change.lease, failures)
  else if (change.kind === "renewed") applyRenewal(site, change.before, change.lease, failures)
  else failures.attempt("remove the address", () => applyLoss(site, change.lease))
  failures.throwIfAny()
}

/** Sets the interface up, with the address and routes of a lease that replaces a lost one. */
function applyLease(site: Site, lease: Lease, failures: Failures): void {
  const { inside, link } = site
  failures.attempt("set the interface up", () => {
    if ((link.flags & IFF_UP) === 0) setLink(inside, link, { up: true })
  })
  failures.attempt("set the MTU", () => applyMtu(site, lease))
  failures.attempt("add the address", () => addAddresses(site, lease))
  for (const route of routesOf(site, lease)) {
    failures.attempt("add a route", () => unlessErrno(() => addRoute(inside, route, "append"), "EEXIST"))
  }
}

/** Applies the changes of a renewed lease: address, routes and MTU. */
function applyRenewal(site: Site, before: Lease, after: Lease, failures: Failures): void {
  const { inside, link } = site
  failures.attempt("set the MTU", () => applyMtu(site, after))
  const [former, current] = [routesByKey(site, before), routesByKey(site, after)]
  const isMoved = before.address !== after.address
  if (isMoved) {
    // The order matters, because the kernel removes all addresses of a subnet together with the first.
    failures.attempt("remove the address", () => removeAddresses(inside, link, before))
    failures.attempt("add the address", () => addAddresses(site, after))
  }
  // A route to the same destination is replaced, so that the container is never without it.
  for (const [key, route] of current) {
    if (isMoved || !former.has(key)) failures.attempt("set a route", () => addRoute(inside, route, "replace"))
  }
  for (const [key, route] of former) {
    if (!current.has(key))
      failures.attempt("remove a route", () => unlessErrno(() => deleteRoute(inside, route), "ESRCH"))
  }
}

/** Removes a lost lease's address. For IPv4, sets the interface down, because another host may get the address. */
function applyLoss({ inside, link }: Site, lease: Lease): void {
  removeAddresses(inside, link, lease)
  if (familyOf(addressOf(lease)) !== AF_INET6) setDown(inside, link)
}

/**
 * Sets the interface down, like `ip link set down`, unless it has a master: a port of a bridge carries the traffic of a
 * virtual machine.
 */
export function setDown(inside: RouteSocket, link: Link): void {
  if ((link.flags & IFF_UP) !== 0 && link.attributes.master === undefined) setLink(inside, link, { up: false })
}

function addAddresses({ inside, link }: Site, lease: Lease): void {
  for (const address of addressesOf({ ips: [{ address: lease.address }] })) {
    unlessErrno(() => addAddress(inside, link, { ...address, noDad: true }), "EEXIST")
  }
}

function removeAddresses(inside: RouteSocket, link: Link, lease: Lease): void {
  for (const address of addressesOf({ ips: [{ address: lease.address }] })) {
    unlessErrno(() => deleteAddress(inside, link, address), "EADDRNOTAVAIL")
  }
}

function routesOf({ link, config }: Site, lease: Lease): RouteSpec[] {
  return planRoutes(resultOf([lease], config), link)
}

function routesByKey(site: Site, lease: Lease): Map<string, RouteSpec> {
  const plain = (_: string, value: unknown) => (value instanceof Uint8Array ? [...value] : value)
  return new Map(routesOf(site, lease).map((route) => [JSON.stringify(route, plain), route]))
}

/**
 * Deletes the routes and addresses of router advertisements, because they conflict with a lease. Throws `NetlinkError`.
 */
export function deleteLearned(inside: RouteSocket, link: Link): void {
  const isLearned = ({ protocol, index }: ListedRoute) => protocol === RTPROT_RA && index === link.index
  for (const route of listRoutes(inside, AF_INET6, { isWanted: isLearned })) deleteRoute(inside, route)
  for (const address of listAddresses(inside, link, AF_INET6)) {
    if (address.scope === 0 && (address.flags & IFA_F_PERMANENT) === 0) deleteAddress(inside, link, address)
  }
}

/** Returns the link-local address, or undefined until duplicate address detection has finished. */
export function findLinkLocal(inside: RouteSocket, link: Link): string | undefined {
  const isUsable = (flags: number) => (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) === 0
  const own = listAddresses(inside, link, AF_INET6).find(({ ip, flags }) => isLinkLocal(ip) && isUsable(flags))
  return own && formatIp(own.ip)
}
