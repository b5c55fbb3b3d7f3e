import { mismatch } from "../../pkg/ip/mod.ts"
import { findLink, findRoute, listLinks, RouteSocket } from "../../pkg/netlink/mod.ts"
import { findSysctl, tryWriteSysctl, writeSysctl } from "../../pkg/sysctl/mod.ts"
import { AF_INET, CniError, Code, familyOf, type Result } from "../../pkg/types/mod.ts"
import { type HostportHints, isLoopback, type MappedAddress } from "./mapping.ts"

export interface HostLink {
  name: string
  /** Whether the interface outlives the container, as a bridge does, but not the host's end of a pair. */
  isShared: boolean
}

/**
 * Returns the interface that needs `route_localnet`: that of the route to the container, if 127.0.0.1 must reach a
 * mapped port. Returns undefined if no port needs that, or if there is no route. Throws `NetlinkError`.
 */
export function findLocalnetLink(addresses: readonly MappedAddress[], opened?: RouteSocket): HostLink | undefined {
  const ipv4 = addressNeedingLocalnet(addresses)
  if (!ipv4) return undefined
  using own = opened ? undefined : RouteSocket.open()
  const host = opened ?? (own as RouteSocket)
  const index = findRoute(host, ipv4.address.ip)?.index
  const link = index === undefined ? undefined : findLink(host, index)
  if (!link || link.name === "lo") return undefined
  return { name: link.name, isShared: link.kind !== "veth" && link.kind !== "tun" }
}

/** Returns the container's IPv4 address if 127.0.0.1 must reach one of its mapped ports. */
export function addressNeedingLocalnet(addresses: readonly MappedAddress[]): MappedAddress | undefined {
  const ipv4 = addresses.find(({ family }) => family === AF_INET)
  return ipv4?.mappings.some(({ hostIp }) => hostIp === undefined || isLoopback(hostIp)) ? ipv4 : undefined
}

export function hostLinksIn(result: Result | undefined): string[] {
  return (result?.interfaces ?? []).flatMap(({ name, sandbox }) => (sandbox ? [] : [name]))
}

function settingOf(link: string): string {
  return `net/ipv4/conf/${link}/route_localnet`
}

/** Reports whether packets from and to 127.0.0.0/8 may pass an interface. */
export function isLocalnetOn(link: string): boolean {
  return isLocalnetOnLink(link) || isLocalnetOnLink("all")
}

/** Reports whether an interface exists and has settings for IPv4. */
export function hasLocalnetSetting(link: string): boolean {
  return findSysctl(settingOf(link)) !== undefined
}

/** Reports whether `route_localnet` of this interface itself is enabled; false if the interface does not exist. */
export function isLocalnetOnLink(link: string): boolean {
  return findSysctl(settingOf(link)) === "1"
}

/** Enables `route_localnet`, like `sysctl -w net.ipv4.conf.LINK.route_localnet=1`. Throws `CniError`. */
export function switchLocalnetOn(link: string): void {
  try {
    writeSysctl(settingOf(link), "1")
  } catch (cause) {
    const what = `Cannot let 127.0.0.1 reach the container: "${settingOf(link)}" cannot be set`
    throw new CniError(Code.Internal, what, { cause, details: `${cause}; with "snat": false it is not needed` })
  }
}

/** Throws `CniError` if `route_localnet` is disabled for an interface. */
export function checkLocalnet(link: string): void {
  if (!isLocalnetOn(link)) throw mismatch(`sysctl "${settingOf(link)}"`, "1", "0")
}

/**
 * Disables `route_localnet` for `links`, before their table is removed, and enables it for the other interfaces in
 * `before`. Returns the existing interfaces for which it could not be disabled.
 */
export function switchLocalnetOff(links: readonly string[], before: readonly string[]): string[] {
  for (const link of before) if (!links.includes(link)) tryWriteSysctl(settingOf(link), "1")
  const refused = links.filter((link) => !tryWriteSysctl(settingOf(link), "0"))
  if (refused.length === 0) return []
  using host = RouteSocket.open()
  return refused.filter((link) => findLink(host, link))
}

/** Returns the error for interfaces whose `route_localnet` cannot be disabled. */
export function localnetStays(links: readonly string[]): CniError {
  const what = links.map((link) => `"${settingOf(link)}"`).join(", ")
  return new CniError(Code.Internal, `Cannot disable ${what}: /proc/sys is not writable`, {
    details: "the rules still block access to 127.0.0.0/8; the next DEL or GC tries again",
  })
}

/**
 * Returns those of `links` that have `route_localnet` enabled. If a link was deleted or renamed, or `links` is empty,
 * checks the interfaces of the routes to `addresses` instead; if `addresses` is empty too, all interfaces. Throws
 * `NetlinkError`.
 */
export function findOpenLinks({ links = [], addresses }: Omit<HostportHints, "mappings">): string[] {
  if (links.length > 0 && links.every(hasLocalnetSetting)) return links.filter(isLocalnetOnLink)
  using host = RouteSocket.open()
  const leadingTo = (ip: Uint8Array) => {
    const index = familyOf(ip) === AF_INET ? findRoute(host, ip)?.index : undefined
    return index === undefined ? undefined : findLink(host, index)?.name
  }
  const names = addresses.length > 0 ? addresses.map(leadingTo) : listLinks(host).map(({ name }) => name)
  return [...new Set(names)].filter((name) => name !== undefined && name !== "lo" && isLocalnetOnLink(name)) as string[]
}
