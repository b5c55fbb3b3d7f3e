import { addressesOf, planRoutes } from "../../pkg/ip/mod.ts"
import { type Link, RouteScope, type RouteSpec, RT_TABLE_MAIN } from "../../pkg/netlink/mod.ts"
import { type Cidr, formatCidr, networkOf, type Result } from "../../pkg/types/mod.ts"

type Addresses = Pick<Result, "ips">

/** The routes inside the container, in the order in which they are added. */
export interface ContainerRoutes {
  /** Routes to the gateways, which are on the link, followed by the IPAM plugin's routes. */
  first: RouteSpec[]
  /**
   * Networks whose routes the kernel adds with the addresses. These routes must be deleted: no neighbor is on the link.
   */
  networks: Cidr[]
  /** Routes to the same networks through the gateways. */
  last: RouteSpec[]
}

/**
 * Plans the routes of a container on a point-to-point link: `ip route add 10.9.0.1 dev eth0 scope link src 10.9.0.5`,
 * the result's routes, `ip route del 10.9.0.0/24 dev eth0`, and `ip route add 10.9.0.0/24 via 10.9.0.1 dev eth0 src
 * 10.9.0.5`. If several addresses need the same route, it is added once, with the first address as source. The result's
 * routes come before the deletion, because they may use any gateway in the networks. If the result has a route to a
 * network, that route replaces ours; a route to a gateway is omitted, because it equals ours.
 */
export function planContainerRoutes(
  result: Pick<Result, "ips" | "routes">,
  link: Pick<Link, "index">,
): ContainerRoutes {
  const gateways = new Map<string, RouteSpec>()
  const networks = new Map<string, RouteSpec>()
  for (const { ip, prefix, gateway } of addressesOf(result)) {
    if (!gateway) continue
    const ours = { index: link.index, preferredSource: ip }
    addOnce(gateways, { ...ours, dst: gateway, prefix: bitsOf(gateway), scope: RouteScope.Link })
    addOnce(networks, { ...ours, dst: networkOf({ ip, prefix }), prefix, gateway })
  }
  const others: RouteSpec[] = []
  for (const route of planRoutes(result, link)) {
    const to = isPlain(route) ? destination(route) : ""
    if (networks.has(to)) networks.set(to, route)
    else if (!gateways.has(to)) others.push(route)
  }
  const all = [...networks.values()]
  return {
    first: [...gateways.values(), ...others],
    networks: all.map(({ dst, prefix }) => ({ ip: dst, prefix })),
    last: all.filter(({ dst, prefix }) => prefix < bitsOf(dst)), // an address without a network has no neighbors
  }
}

/** Returns the addresses of the host's end, such as 10.9.0.1/32: each gateway once. */
export function hostAddresses(result: Addresses): Cidr[] {
  const gateways = new Map<string, Cidr>()
  for (const { gateway } of addressesOf(result)) {
    if (gateway) gateways.set(String(gateway), { ip: gateway, prefix: bitsOf(gateway) })
  }
  return [...gateways.values()]
}

/** Returns the host's routes to the container's addresses, like `ip route add 10.9.0.5 dev veth0a1b2c3d scope host`. */
export function hostRoutes(result: Addresses, end: Pick<Link, "index">): RouteSpec[] {
  const routes = new Map<string, RouteSpec>()
  for (const { ip } of addressesOf(result)) {
    addOnce(routes, { dst: ip, prefix: bitsOf(ip), index: end.index, scope: RouteScope.Host })
  }
  return [...routes.values()]
}

function addOnce(routes: Map<string, RouteSpec>, route: RouteSpec): void {
  const to = destination(route)
  if (!routes.has(to)) routes.set(to, route)
}

function destination({ dst, prefix }: RouteSpec): string {
  return formatCidr({ ip: dst, prefix })
}

/** Reports whether a route has the same table and priority as our route, which it would replace. */
function isPlain({ table, priority }: RouteSpec): boolean {
  return (table === undefined || table === RT_TABLE_MAIN) && priority === undefined
}

function bitsOf(ip: Uint8Array): number {
  return ip.length * 8
}
