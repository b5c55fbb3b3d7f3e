import { addressesOf, planRoutes } from "../../pkg/ip/mod.ts"
import { type Link, RouteScope, type RouteSpec, RT_TABLE_MAIN } from "../../pkg/netlink/mod.ts"
import { type Cidr, formatCidr, networkOf, type Result } from "../../pkg/types/mod.ts"

type Addresses = Pick<Result, "ips">

/** The routes inside the container, in the order in which the kernel accepts them. */
export interface ContainerRoutes {
  /** The gateways, each on the link, and then what the IPAM plugin wants. */
  first: RouteSpec[]
  /** Networks whose routes, made by the kernel along with the addresses, have to go: no neighbour is on the link. */
  networks: Cidr[]
  /** The networks again, through their gateways. */
  last: RouteSpec[]
}

/**
 * The routes of a container at the end of a point-to-point link, like
 * `ip route add 10.9.0.1 dev eth0 scope link src 10.9.0.5`, what the result has, `ip route del 10.9.0.0/24 dev eth0`, and
 * `ip route add 10.9.0.0/24 via 10.9.0.1 dev eth0 src 10.9.0.5`. What several addresses share comes once, with the first
 * one as source. The result's routes come before the deletion, so that they may use any gateway in the networks; one to a
 * network itself takes the place of ours, one to a gateway itself is ours already.
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
    last: all.filter(({ dst, prefix }) => prefix < bitsOf(dst)), // an address alone has no neighbours to be reached
  }
}

/** The addresses of the host's end, each gateway once: 10.9.0.1/32. */
export function hostAddresses(result: Addresses): Cidr[] {
  const gateways = new Map<string, Cidr>()
  for (const { gateway } of addressesOf(result)) {
    if (gateway) gateways.set(String(gateway), { ip: gateway, prefix: bitsOf(gateway) })
  }
  return [...gateways.values()]
}

/** The host's routes to the container's addresses, like `ip route add 10.9.0.5 dev veth0a1b2c3d scope host`. */
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

/** Whether a route competes with ours: same table, same priority. */
function isPlain({ table, priority }: RouteSpec): boolean {
  return (table === undefined || table === RT_TABLE_MAIN) && priority === undefined
}

function bitsOf(ip: Uint8Array): number {
  return ip.length * 8
}
