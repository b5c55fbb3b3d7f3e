import { isErrno, unlessErrno } from "../libc/mod.ts"
import { AF_INET, type Family, familyOf, formatCidr, formatIp } from "../types/mod.ts"
import { attrs, payloadOf } from "./attrs.ts"
import type { Request } from "./channel.ts"
import { bytes } from "./codec.ts"
import { dumpFamily } from "./family.ts"
import { struct, u8, u32 } from "./integers.ts"
import type { Ifindex } from "./links.ts"
import { type Message, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE } from "./message.ts"
import { multipath, type NextHop, RTNH_F_ONLINK } from "./next-hops.ts"
import type { NetlinkSocket } from "./socket.ts"

/** <linux/rtnetlink.h> */
export const RTM_NEWROUTE = 24
const RTM_DELROUTE = 25
export const RTM_GETROUTE = 26
const RTM_F_CLONED = 0x200
const RTPROT_UNSPEC = 0 // matches any protocol
export const RTPROT_KERNEL = 2
const RTPROT_BOOT = 3
export const RTPROT_RA = 9
export const RTN_UNICAST = 1
export const RTN_LOCAL = 2
export const RTN_UNREACHABLE = 7

export const RT_TABLE_MAIN = 254
export const RT_TABLE_LOCAL = 255
export const RouteScope = { Universe: 0, Site: 200, Link: 253, Host: 254, Nowhere: 255 } as const

/** struct rtmsg */
export const routeHeader = struct({
  family: u8,
  dstPrefix: u8,
  srcPrefix: u8,
  tos: u8,
  table: u8,
  protocol: u8,
  scope: u8,
  type: u8,
  flags: u32,
})

/** `RTA_METRICS`, `RTAX_*`. */
const metrics = attrs({ mtu: [2, u32], advmss: [8, u32] }, { keepsUnknown: false })

const routeAttributes = attrs(
  {
    dst: [1, bytes],
    index: [4, u32], // RTA_OIF
    gateway: [5, bytes],
    priority: [6, u32],
    preferredSource: [7, bytes],
    metrics: [8, metrics],
    multipath: [9, multipath],
    table: [15, u32],
  },
  { keepsUnknown: false },
)
const routePayload = payloadOf(routeHeader, routeAttributes)

/** A route, unicast if `type` is undefined. `dst` has no host bits. Addresses have 4 or 16 bytes, network order. */
export interface RouteSpec {
  dst: Uint8Array
  prefix: number
  gateway?: Uint8Array | undefined
  index?: Ifindex | undefined
  /** The metric. The route with the lowest metric has precedence. */
  priority?: number | undefined
  preferredSource?: Uint8Array | undefined
  mtu?: number | undefined
  advmss?: number | undefined
  /** The number of the table; 254, main, if undefined. */
  table?: number | undefined
  /** `RouteScope`: universe if undefined. */
  scope?: number | undefined
  /** The gateway is reachable on this link although no address of the link covers it, like `onlink`. */
  onLink?: boolean | undefined
  nextHops?: NextHop[] | undefined
  /** RTPROT_*, the program that added the route; 3, boot, if undefined. */
  protocol?: number | undefined
  /** RTN_*: 1 unicast, 7 unreachable. */
  type?: number | undefined
}

/** A route as the kernel lists it. */
export interface ListedRoute extends RouteSpec {
  table: number
  scope: number
  /** RTPROT_*: 2 kernel, 3 boot, 4 static. */
  protocol: number
  /** RTN_*: 1 unicast, 2 local, 3 broadcast, 7 unreachable. */
  type: number
  /** RTNH_F_* and RTM_F_* bits. */
  flags: number
}

type Mode = "add" | "replace" | "append"

/** Adds a route, like `ip route add`, `replace` or `append`. Throws `EEXIST` if "add" finds the same route. */
export function addRoute(route: NetlinkSocket, spec: RouteSpec, mode: Mode = "add"): void {
  route.execute(toAddRoute(spec, mode))
}

/** Returns the request of `addRoute`, for `executeAll`. */
export function toAddRoute(spec: RouteSpec, mode: Mode): Request & { spec: RouteSpec } {
  const flags = {
    add: NLM_F_CREATE | NLM_F_EXCL,
    replace: NLM_F_CREATE | NLM_F_REPLACE,
    append: NLM_F_CREATE | NLM_F_APPEND,
  }[mode]
  return { type: RTM_NEWROUTE, flags, what: `${mode} route ${showRoute(spec)}`, payload: encodeRoute(spec), spec }
}

/**
 * Deletes a route with all given attributes and any protocol, like `ip route del unicast`. Throws `ESRCH` if there is
 * none.
 */
export function deleteRoute(route: NetlinkSocket, spec: RouteSpec): void {
  route.execute(toDeleteRoute(spec))
}

/** Returns the request of `deleteRoute`, for `executeAll`. */
export function toDeleteRoute(spec: RouteSpec): Request & { spec: RouteSpec } {
  const payload = encodeRoute({ ...spec, scope: spec.scope ?? RouteScope.Nowhere }, RTPROT_UNSPEC)
  return { type: RTM_DELROUTE, what: `delete route ${showRoute(spec)}`, payload, spec }
}

/**
 * Returns the request that deletes a listed route if its protocol has not changed, like `ip route del PREFIX proto
 * PROTOCOL`. A route with which another program has replaced it is kept, and the kernel answers `ESRCH`.
 */
export function toDeleteListedRoute(listed: ListedRoute): Request & { spec: ListedRoute } {
  const what = `delete route ${showRoute(listed)}`
  return { type: RTM_DELROUTE, what, payload: encodeRoute(listed), spec: listed }
}

/** Criteria that select routes of a family. */
export interface RouteFilter {
  /** The table; all tables if undefined. The kernel applies this criterion. */
  table?: number
  /** The link of the route, or of one of its next hops. The kernel applies this criterion. */
  index?: Ifindex
  /** RTPROT_*. The kernel applies this criterion. */
  protocol?: number
  /** RTN_*. The kernel applies this criterion. */
  type?: number
  /** The wanted prefix lengths of destinations. To save time, they are compared before a route is decoded. */
  prefixes?: ReadonlySet<number>
  isWanted?: (route: ListedRoute) => boolean
}

/**
 * Returns the routes of a family, or of both, like `ip route show table TABLE dev NAME`, without cached routes. Returns
 * an empty list if the table or link does not exist. A host may have a million routes, so give the table and the link.
 * Throws `NetlinkError`.
 */
export function listRoutes(
  route: NetlinkSocket,
  family: Family | undefined,
  { table, index, protocol, type, prefixes, isWanted = () => true }: RouteFilter = {},
): ListedRoute[] {
  const inHeader = table !== undefined && table < 256 ? table : 0
  const payload = routePayload.encode({ family, table: inHeader, protocol, type }, { index, table })
  const pick = (message: Message) => {
    if (prefixes && !prefixes.has(u8.get(message.payload, routeHeader.offsets.dstPrefix))) return undefined
    const listed = readRoute(message)
    if (listed.flags & RTM_F_CLONED) return undefined
    // Kernels before 4.20 ignore the criteria.
    if (table !== undefined && listed.table !== table) return undefined
    if (index !== undefined && !isBy(listed, index)) return undefined
    if (protocol !== undefined && listed.protocol !== protocol) return undefined
    if (type !== undefined && listed.type !== type) return undefined
    return isWanted(listed) ? listed : undefined
  }
  try {
    return dumpFamily(route, family, { type: RTM_GETROUTE, what: "list routes", payload }, pick)
  } catch (error) {
    if (table !== undefined && isErrno(error, "ENOENT")) return []
    if (index !== undefined && isErrno(error, "ENODEV")) return []
    throw error
  }
}

function isBy({ index, nextHops }: ListedRoute, wanted: Ifindex): boolean {
  return nextHops?.some((hop) => hop.index === wanted) ?? index === wanted
}

/**
 * Returns the route of packets to an address, like `ip route get IP`. This takes one request, however many routes there
 * are. Returns `undefined` if there is no route. Throws `NetlinkError`.
 */
export function findRoute(route: Pick<NetlinkSocket, "get">, ip: Uint8Array): ListedRoute | undefined {
  const payload = routePayload.encode({ family: familyOf(ip), dstPrefix: 8 * ip.length }, { dst: ip })
  const request = { type: RTM_GETROUTE, what: `find the route to ${formatIp(ip)}`, payload }
  return unlessErrno(() => route.get(request, readRoute), "ENETUNREACH", "EHOSTUNREACH", "ESRCH")
}

function encodeRoute(spec: RouteSpec, protocol = spec.protocol ?? RTPROT_BOOT): Uint8Array {
  const table = spec.table ?? RT_TABLE_MAIN
  const header = {
    family: familyOf(spec.dst),
    dstPrefix: spec.prefix,
    table: table < 256 ? table : 0,
    protocol,
    scope: spec.scope ?? RouteScope.Universe,
    type: spec.type ?? RTN_UNICAST,
    flags: spec.onLink ? RTNH_F_ONLINK : 0,
  }
  const attributes = {
    dst: spec.prefix > 0 ? spec.dst : undefined,
    index: spec.index,
    gateway: spec.gateway,
    priority: spec.priority,
    preferredSource: spec.preferredSource,
    metrics: spec.mtu === undefined && spec.advmss === undefined ? undefined : { mtu: spec.mtu, advmss: spec.advmss },
    multipath: spec.nextHops,
    table: table < 256 ? undefined : table,
  }
  return routePayload.encode(header, attributes)
}

/** Decodes a message of type `RTM_NEWROUTE` or `RTM_DELROUTE` from an answer or an event. */
export function readRoute(message: Message): ListedRoute {
  const { payload } = message
  const { offsets } = routeHeader
  const attributes = routePayload.decodeAttributes(payload)
  const flags = u32.get(payload, offsets.flags)
  const {
    dst,
    index,
    gateway,
    priority,
    preferredSource,
    metrics: { mtu, advmss } = {},
    multipath: nextHops,
  } = attributes
  return {
    dst: dst ?? new Uint8Array(payload[offsets.family] === AF_INET ? 4 : 16),
    prefix: u8.get(payload, offsets.dstPrefix),
    gateway,
    index: index as Ifindex | undefined,
    priority,
    preferredSource,
    mtu,
    advmss,
    nextHops,
    onLink: (flags & RTNH_F_ONLINK) !== 0 || undefined,
    table: attributes.table ?? u8.get(payload, offsets.table),
    scope: u8.get(payload, offsets.scope),
    protocol: u8.get(payload, offsets.protocol),
    type: u8.get(payload, offsets.type),
    flags,
  }
}

function showRoute(spec: RouteSpec): string {
  const destination = spec.prefix === 0 ? "default" : formatCidr({ ip: spec.dst, prefix: spec.prefix })
  const gateway = spec.gateway ? ` via ${formatIp(spec.gateway)}` : ""
  return destination + gateway + (spec.table === undefined ? "" : ` table ${spec.table}`)
}
