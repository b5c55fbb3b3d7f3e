import {
  type Address,
  IFA_F_DADFAILED,
  IFA_F_TEMPORARY,
  IFA_F_TENTATIVE,
  type ListedRoute,
  listAddresses,
  listRoutes,
  type NetlinkSocket,
  RouteScope,
  RT_TABLE_MAIN,
  RTN_UNICAST,
} from "../../pkg/netlink/mod.ts"
import { contains, FAMILIES, familyOf, formatIp } from "../../pkg/types/mod.ts"

/**
 * The addresses of the host to publish: of each family the source address of packets that take the default route, as `ip route get` shows
 * it. A family without a default route has none. Throws `NetlinkError`.
 */
export function defaultAddresses(route: NetlinkSocket): string[] {
  const filter = { table: RT_TABLE_MAIN, type: RTN_UNICAST, prefixes: new Set([0]) }
  const routes = listRoutes(route, undefined, filter)
  const addresses = listAddresses(route)
  return FAMILIES.flatMap((family) => {
    const source = sourceOf(
      routes.filter(({ dst }) => familyOf(dst) === family),
      addresses.filter(({ ip }) => familyOf(ip) === family),
    )
    return source === undefined ? [] : [formatIp(source)]
  })
}

/**
 * The source address of the default route with the lowest metric: the one that the route names, else the address of its link whose network
 * has the gateway, else the link's first one.
 */
export function sourceOf(routes: readonly ListedRoute[], addresses: readonly Address[]): Uint8Array | undefined {
  const best = [...routes].sort((a, b) => (a.priority ?? 0) - (b.priority ?? 0))[0]
  if (best === undefined) return undefined
  if (best.preferredSource !== undefined) return best.preferredSource
  const { index, gateway } = best.nextHops?.[0] ?? best
  const usable = addresses.filter((one) => one.index === index && isPublishable(one))
  return (usable.find((one) => gateway !== undefined && contains(one, gateway)) ?? usable[0])?.ip
}

/** One that other hosts reach and that stays. */
function isPublishable({ scope, flags }: Address): boolean {
  return scope === RouteScope.Universe && (flags & (IFA_F_TEMPORARY | IFA_F_TENTATIVE | IFA_F_DADFAILED)) === 0
}

/** Whether two lists of addresses are the same, in any order. */
export function sameAddresses(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one) => b.includes(one))
}
