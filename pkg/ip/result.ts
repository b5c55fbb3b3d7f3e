import { type Link, type NextHop, RouteScope, type RouteSpec } from "../netlink/mod.ts"
import {
  type Cidr,
  CniError,
  Code,
  type Family,
  familyOf,
  networkOf,
  parseCidr,
  parseIp,
  type Result,
  type Route,
  sameBytes,
} from "../types/mod.ts"

/** An address and its gateway in a result, as bytes. */
export interface ResultAddress extends Cidr {
  gateway?: Uint8Array
}

/** Returns a result's addresses and gateways as bytes. The texts were checked when the result was read. */
export function addressesOf(result: Pick<Result, "ips">): ResultAddress[] {
  const addresses: ResultAddress[] = []
  for (const { address, gateway } of result.ips) {
    const cidr = required(parseCidr(address), address)
    addresses.push(gateway === undefined ? cidr : { ...cidr, gateway: required(parseIp(gateway), gateway) })
  }
  return addresses
}

function destinationOf(route: Route): Cidr {
  return required(parseCidr(route.dst), route.dst)
}

/** Returns a gateway's bytes; `undefined` for none, also if written as the unspecified address, as by some plugins. */
export function gatewayOf(text: string | undefined): Uint8Array | undefined {
  const gateway = text === undefined ? undefined : required(parseIp(text), text)
  return gateway && sameBytes(gateway, new Uint8Array(gateway.length)) ? undefined : gateway
}

/**
 * Returns the routes of a result in the form of `addRoute`. A route without a gateway gets the first gateway of its
 * family, unless its scope is link. Host bits of a destination are cleared. Routes with the same destination and
 * several gateways become one multipath route. Equal routes are merged.
 */
export function planRoutes(result: Pick<Result, "ips" | "routes">, link: Pick<Link, "index">): RouteSpec[] {
  const gateways = addressesOf(result).flatMap(({ gateway }) => gateway ?? [])
  const groups = new Map<string, { spec: RouteSpec; hops: Map<string, NextHop> }>()
  for (const route of result.routes) {
    const { ip, prefix } = destinationOf(route)
    const dst = networkOf({ ip, prefix })
    const gateway = gatewayOf(route.gw) ?? impliedGateway(route, gateways, familyOf(ip))
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

/** Returns the gateway of a route without `gw`: the first of its family, or undefined if its scope is link. */
function impliedGateway(route: Route, gateways: Uint8Array[], family: Family): Uint8Array | undefined {
  if (route.gw !== undefined || (route.scope ?? 0) >= RouteScope.Link) return undefined
  return gateways.find((gateway) => familyOf(gateway) === family)
}

function specOf(route: Route, dst: Uint8Array, prefix: number): RouteSpec {
  const { table, mtu, advmss } = route
  const priority = route.priority || undefined // 0 means the kernel's default, as in the Go plugins
  return { dst, prefix, priority, table, scope: scopeOf(route), mtu: mtu || undefined, advmss: advmss || undefined }
}

/**
 * Returns the scope of a route. Results before version 0.3.0 have no scopes; there only the gateway "0.0.0.0" indicates
 * a destination on the link. Such a route needs scope link, or the kernel refuses gateways that it leads to.
 */
function scopeOf({ scope, gw }: Route): number | undefined {
  return scope ?? (gw !== undefined && gatewayOf(gw) === undefined ? RouteScope.Link : undefined)
}

function required<T>(value: T | undefined, text: string): T {
  if (value === undefined) throw new CniError(Code.Decoding, `Cannot use "${text}" of the result: it is not an address`)
  return value
}
