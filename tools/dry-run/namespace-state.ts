import {
  IFF_UP,
  type Ifindex,
  type Link,
  listAddresses,
  listLinks,
  listRoutes,
  type RouteSocket,
  RT_TABLE_MAIN,
} from "../../pkg/netlink/mod.ts"
import { formatCidr, formatIp, isLinkLocal } from "../../pkg/types/mod.ts"

/** The state of a namespace: a line of text for each object. The changes by an ADD are the difference of two states. */
export interface NamespaceState {
  readonly links: readonly string[]
  readonly addresses: readonly string[]
  readonly routes: readonly string[]
}

/** The name prefix of stand-ins for the other ends of links, which do not exist on the host. */
export const STAND_IN = "~"

/** The first byte of IPv6 multicast addresses. */
const MULTICAST = 0xff

/** Reads links, addresses and routes of a namespace. Throws `NetlinkError`. */
export function readState(route: RouteSocket): NamespaceState {
  const links = listLinks(route)
  const name = (index: number | undefined) => links.find((link) => link.index === index)?.name ?? `link ${index}`
  const shown = links.filter((link) => !link.name.startsWith(STAND_IN) && link.name !== "lo")
  const addresses = listAddresses(route).filter(({ index, scope }) => scope === 0 && name(index) !== "lo")
  const routes = listRoutes(route, undefined, { table: RT_TABLE_MAIN })
  return {
    links: shown.map((link) => describeLink(link, name)),
    addresses: addresses.map(({ ip, prefix, index }) => `${formatCidr({ ip, prefix })} dev ${name(index)}`),
    routes: routes.flatMap((one) => {
      if (one.type !== 1 || one.dst[0] === MULTICAST || isLinkLocal(one.dst)) return []
      const dst = one.prefix === 0 ? "default" : formatCidr({ ip: one.dst, prefix: one.prefix })
      const via = one.gateway === undefined ? "" : ` via ${formatIp(one.gateway)}`
      return [`${dst}${via} dev ${name(one.index)}`]
    }),
  }
}

function describeLink({ name, kind, mtu, flags, attributes }: Link, nameOf: (index: Ifindex) => string): string {
  const { master, alias } = attributes
  const port = master === undefined ? "" : `, port of ${nameOf(master as Ifindex)}`
  const owner = alias === undefined ? "" : `, alias ${alias}`
  return `${name}: ${kind || "device"}, mtu ${mtu}, ${flags & IFF_UP ? "up" : "down"}${port}${owner}`
}

/** Returns the lines of the second state that are not in the first. */
export function addedTo(before: NamespaceState, after: NamespaceState): NamespaceState {
  const added = (key: keyof NamespaceState) => after[key].filter((line) => !before[key].includes(line))
  return { links: added("links"), addresses: added("addresses"), routes: added("routes") }
}
