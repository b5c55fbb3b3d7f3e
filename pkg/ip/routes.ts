import { addRoute, type Link, type NetlinkSocket, type NextHop, RouteScope, type RouteSpec } from "../netlink/mod.ts"
import { networkOf, type Result, type Route } from "../types/mod.ts"
import { addressesOf, destinationOf, gatewayOf } from "./result.ts"

/**
 * The routes of a result as the kernel gets them: a route without a gateway uses the first gateway of its family, unless
 * its scope says that the destination is on the link; host bits of a destination are dropped; the same destination
 * through several gateways is one multipath route; the same route twice is one route.
 */
export function planRoutes(result: Pick<Result, "ips" | "routes">, link: Pick<Link, "index">): RouteSpec[] {
  const gateways: Uint8Array[] = []
  for (const { gateway } of addressesOf(result)) if (gateway) gateways.push(gateway)
  const groups = new Map<string, { spec: RouteSpec; hops: Map<string, NextHop> }>()
  for (const route of result.routes) {
    const { ip, prefix } = destinationOf(route)
    const dst = networkOf({ ip, prefix })
    const gateway = explicitGateway(route) ?? impliedGateway(route, gateways, ip.length)
    const key = [dst, prefix, route.table, route.priority, route.scope, route.mtu, route.advmss].join()
    const group = groups.get(key) ?? { spec: specOf(route, dst, prefix), hops: new Map() }
    group.hops.set(String(gateway), gateway ? { gateway, index: link.index } : { index: link.index })
    groups.set(key, group)
  }
  const specs: RouteSpec[] = []
  for (const { spec, hops } of groups.values()) {
    if (hops.size > 1) specs.push({ ...spec, nextHops: Array.from(hops.values()) })
    else for (const only of hops.values()) specs.push({ ...spec, ...only })
  }
  return specs
}

/**
 * Installs the routes of a result on a link, like `ip route append … dev LINK`: another interface of the container may have
 * the same, a default route above all, and keeps it. Throws `NetlinkError`.
 */
export function addRoutes(
  route: NetlinkSocket,
  link: Pick<Link, "index">,
  result: Pick<Result, "ips" | "routes">,
): void {
  for (const spec of planRoutes(result, link)) addRoute(route, spec, "append")
}

function explicitGateway(route: Route): Uint8Array | undefined {
  return gatewayOf(route.gw)
}

function impliedGateway(route: Route, gateways: Uint8Array[], length: number): Uint8Array | undefined {
  if (route.gw !== undefined || (route.scope ?? 0) >= RouteScope.Link) return undefined
  for (const gateway of gateways) if (gateway.length === length) return gateway
  return undefined
}

function specOf({ priority, table, scope, mtu, advmss }: Route, dst: Uint8Array, prefix: number): RouteSpec {
  const spec: RouteSpec = { dst, prefix }
  if (priority) spec.priority = priority // 0 is the kernel's default, as for upstream
  if (table !== undefined) spec.table = table
  if (scope !== undefined) spec.scope = scope
  if (mtu) spec.mtu = mtu
  if (advmss) spec.advmss = advmss
  return spec
}
