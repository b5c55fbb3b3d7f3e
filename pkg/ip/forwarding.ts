import { acceptsRa, findLink, type Ifindex, type Link, listRoutes, RouteSocket, RTPROT_RA } from "../netlink/mod.ts"
import {
  findSysctl,
  readSysctl,
  requireSettable,
  tryReplaceSysctl,
  tryWriteSysctl,
  writeSysctl,
} from "../sysctl/mod.ts"
import { AF_INET, AF_INET6, CniError, Code, type Family, orCannot } from "../types/mod.ts"
import { mismatch } from "./check.ts"

const FORWARDING = { [AF_INET]: "net/ipv4/ip_forward", [AF_INET6]: "net/ipv6/conf/all/forwarding" } as const

/**
 * Makes the thread's namespace forward packets of a family, like `sysctl -w net.ipv4.ip_forward=1`. Nothing disables
 * forwarding later, because other programs rely on it. Routes from router advertisements are kept. Throws `CniError`.
 */
export function enableForwarding(family: Family): void {
  setForwarding(family, (name, value) => {
    const present = findSysctl(name)
    if (family === AF_INET6 && present !== value) keepAdvertisedRoutes()
    writeSysctl(name, value, present)
  })
}

/**
 * Sets `net.ipv6.conf.NAME.accept_ra` from 1 to 2 for each link that has a route from router advertisements. With 1 the
 * kernel deletes the link's default routes when forwarding is switched on (rt6_purge_dflt_routers in net/ipv6/route.c),
 * and ignores later advertisements. It is not undone: without forwarding, 2 means the same as 1.
 */
function keepAdvertisedRoutes(): void {
  using host = RouteSocket.open()
  const advertised = listRoutes(host, AF_INET6, { protocol: RTPROT_RA })
  const indexes = advertised.flatMap(({ index, nextHops }) => nextHops?.map((hop) => hop.index) ?? [index])
  for (const index of new Set(indexes)) {
    const link = index === undefined ? undefined : findLink(host, index as Ifindex)
    if (link && findSysctl(acceptRa(link.name)) === "1") writeSysctl(acceptRa(link.name), "2", "1")
  }
}

/** Throws the error that `enableForwarding` would throw, without changing anything; for STATUS. */
export function requireForwarding(family: Family): void {
  setForwarding(family, requireSettable)
}

function setForwarding(family: Family, by: (name: string, value: string) => void): void {
  const name = FORWARDING[family]
  orCannot(`Cannot enable forwarding by "${name}"`, () => by(name, "1"))
}

/** Checks that the thread's namespace forwards packets of a family. Throws `CniError`. */
export function checkForwarding(family: Family): void {
  const name = FORWARDING[family]
  const value = readSysctl(name)
  if (value === "0") throw mismatch(`sysctl "${name}"`, "1", value)
}

/** Reports whether the thread's namespace forwards packets of a family. */
export function isForwarding(family: Family): boolean {
  return findSysctl(FORWARDING[family]) !== "0"
}

/**
 * Makes an interface of the host ignore router advertisements, which any container can send, like `sysctl -w
 * net.ipv6.conf.NAME.accept_ra=0`. Returns the former value, for `restoreAcceptRa`. Returns undefined if nothing was
 * changed, for example because a link with an MTU below 1280 has no IPv6.
 */
export function refuseRouterAdvertisements(name: string): string | undefined {
  return tryReplaceSysctl(acceptRa(name), "0")
}

/** Throws `CniError` if a link still accepts router advertisements: its setting could not be read or written. */
export function requireNoRouterAdvertisements(link: Link): void {
  if (!acceptsRa(link)) return
  throw new CniError(Code.Internal, `Cannot refuse router advertisements at "${link.name}"`, {
    details: `"/proc/sys/${acceptRa(link.name)}" cannot be read or written`,
  })
}

/** Undoes `refuseRouterAdvertisements`. */
export function restoreAcceptRa(name: string, before: string | undefined): void {
  if (before !== undefined) tryWriteSysctl(acceptRa(name), before)
}

function acceptRa(name: string): string {
  return `net/ipv6/conf/${name}/accept_ra`
}
