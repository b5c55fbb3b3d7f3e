import { type ContainerLink, configureLink, refuseRouterAdvertisements } from "../../pkg/ip/mod.ts"
import { isErrno, unlessErrno } from "../../pkg/libc/mod.ts"
import {
  addAddress,
  addRoute,
  deleteRoute,
  findLink,
  findRoute,
  type Link,
  type NetlinkSocket,
  type RouteSpec,
  setLink,
} from "../../pkg/netlink/mod.ts"
import { tryWriteSysctl } from "../../pkg/sysctl/mod.ts"
import {
  AF_INET6,
  CniError,
  Code,
  type Family,
  formatCidr,
  formatIp,
  orCannot,
  type Result,
} from "../../pkg/types/mod.ts"
import { hostAddresses, hostRoutes, planContainerRoutes } from "./routes.ts"

/**
 * Brings the host's end up, which then ignores router advertisements from the container. Its IPv6 addresses, including
 * the link-local one, are usable at once: duplicate address detection is disabled, because no other host is on the
 * link.
 */
export function raiseHostEnd(host: NetlinkSocket, name: string, families: readonly Family[]): void {
  const ipv6 = `net/ipv6/conf/${name}`
  refuseRouterAdvertisements(name)
  tryWriteSysctl(`${ipv6}/accept_dad`, "0")
  if (families.includes(AF_INET6)) tryWriteSysctl(`${ipv6}/disable_ipv6`, "0") // the host may disable IPv6 for new links
  setLink(host, name, { up: true })
}

/**
 * Adds addresses and routes to the container's end and brings it up. The kernel deletes both with the link. Routes are
 * appended, so that another interface of the container may have the same routes, such as a default route.
 */
export function configureContainerEnd(container: ContainerLink, result: Result, acceptRa: boolean): void {
  const { inside, link } = container
  configureLink(container, { ...result, routes: [] }, { acceptRa })
  const { first, networks, last } = planContainerRoutes(result, link)
  orCannot(`Cannot add the routes of "${link.name}"`, () => {
    for (const route of first) addRoute(inside, route, "append")
    for (const { ip: dst, prefix } of networks) {
      // For an IPv4 address without a network (/32) the kernel adds no route.
      unlessErrno(() => deleteRoute(inside, { dst, prefix, index: link.index }), "ESRCH")
    }
    for (const route of last) addRoute(inside, route, "append")
  })
}

/**
 * Adds the gateway addresses to the host's end, and the host routes to the container. The kernel deletes both with the
 * link. With `isRepeated`, existing addresses and routes are not an error.
 */
export function configureHostEnd(
  host: NetlinkSocket,
  end: Link,
  result: Pick<Result, "ips">,
  { isRepeated = false } = {},
): void {
  for (const gateway of hostAddresses(result)) {
    const refusal = `Cannot add gateway ${formatCidr(gateway)} to "${end.name}"`
    const add = () => addAddress(host, end, { ...gateway, noDad: true })
    orCannot(refusal, () => (isRepeated ? unlessErrno(add, "EEXIST") : add()))
  }
  for (const route of hostRoutes(result, end)) {
    try {
      addRoute(host, route)
    } catch (cause) {
      const isThere = isRepeated && isErrno(cause, "EEXIST") && findRoute(host, route.dst)?.index === end.index
      if (!isThere) throw noHostRoute(host, end, route, cause)
    }
  }
}

/** Returns the error for a missing host route. EEXIST: the host has a route to the address, as to another container. */
function noHostRoute(host: NetlinkSocket, end: Link, { dst }: RouteSpec, cause: unknown): CniError {
  const what = `Cannot route ${formatIp(dst)} to "${end.name}"`
  if (!isErrno(cause, "EEXIST")) return new CniError(Code.Internal, what, { cause })
  const index = findRoute(host, dst)?.index // one request, because the host may have a million routes
  const link = index === undefined ? undefined : findLink(host, index)
  return new CniError(Code.Internal, `${what}: the host already has a route to it`, {
    details: link
      ? `its interface is "${link.name}"${link.attributes.alias ? ` of ${link.attributes.alias}` : ""}`
      : "",
  })
}
