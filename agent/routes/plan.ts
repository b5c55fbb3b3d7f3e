import type { ListedRoute } from "../../pkg/netlink/mod.ts"
import {
  AF_INET,
  type Cidr,
  contains,
  familyOf,
  formatCidr,
  networkOf,
  parseCidr,
  parseIp,
  sameBytes,
} from "../../pkg/types/mod.ts"
import type { NodeFacts } from "../nodes.ts"

/** A route to a range of a node: `ip route add RANGE via GATEWAY`; of the own node: `ip route add unreachable RANGE`. */
export interface RangeRoute {
  /** The range, without host bits. */
  readonly range: Cidr
  /** Absent for a range of the own node: packets to addresses that no container has do not leave it again. */
  readonly gateway?: Uint8Array
  readonly node: string
}

/** What the main table has to have. */
export interface RoutePlan {
  readonly wanted: readonly RangeRoute[]
  /** The own Node is not among those that are known: routes that follow from nothing stay. */
  readonly keepsOthers: boolean
  /** Why a range has no route, one for each cause. */
  readonly faults: readonly string[]
}

/** Plans the routes of a node to the ranges of all others, each by the other's internal address of the same family. */
export function planRoutes(own: string, nodes: ReadonlyMap<string, NodeFacts>): RoutePlan {
  const self = nodes.get(own)
  const ownRanges = (self?.ranges ?? []).flatMap(rangeIn)
  const ownAddresses = (self?.addresses ?? []).flatMap((text) => parseIp(text) ?? [])
  const wanted = new Map<string, RangeRoute>()
  for (const range of ownRanges) wanted.set(formatCidr(range), { range, node: own })
  const faults = new Set<string>()
  for (const [node, { ranges, addresses }] of nodes) {
    if (node === own) continue
    const gateways = addresses.flatMap((text) => parseIp(text) ?? [])
    for (const range of ranges.flatMap(rangeIn)) {
      const text = formatCidr(range)
      const family = familyName(range.ip)
      const gateway = gateways.find((ip) => ip.length === range.ip.length)
      const other = ownRanges.some((mine) => overlap(mine, range)) ? own : wanted.get(text)?.node
      const what = `Cannot route to the ${family} range of node "${node}"`
      if (other !== undefined) faults.add(`${what}: node "${other}" has ${text}, too`)
      else if (gateway === undefined) faults.add(`${what}: it has no ${family} address of type InternalIP`)
      else if (ownAddresses.some((ip) => sameBytes(ip, gateway))) faults.add(`${what}: it has the address of this node`)
      else wanted.set(text, { range, gateway, node })
    }
  }
  return { wanted: [...wanted.values()], keepsOthers: self === undefined, faults: [...faults].sort() }
}

export function familyName(ip: Uint8Array): "IPv4" | "IPv6" {
  return familyOf(ip) === AF_INET ? "IPv4" : "IPv6"
}

function rangeIn(text: string): Cidr[] {
  const cidr = parseCidr(text)
  return cidr === undefined || cidr.prefix === 0 ? [] : [{ ip: networkOf(cidr), prefix: cidr.prefix }]
}

function overlap(a: Cidr, b: Cidr): boolean {
  return a.ip.length === b.ip.length && (contains(a, b.ip) || contains(b, a.ip))
}

/** What has to change in the table. */
export interface RouteChanges {
  readonly removed: readonly ListedRoute[]
  readonly added: readonly RangeRoute[]
}

/**
 * Compares the agent's own routes, as they are, with the plan. A route by another gateway is removed and added, and not replaced: `ip
 * route replace` takes the first route to the prefix, which may be another program's.
 */
export function changesFor({ wanted, keepsOthers }: RoutePlan, present: readonly ListedRoute[]): RouteChanges {
  const missing = new Map(wanted.map((route) => [formatCidr(route.range), route]))
  const removed = present.filter((listed) => {
    const key = formatCidr({ ip: listed.dst, prefix: listed.prefix })
    const route = missing.get(key)
    if (route === undefined) return !keepsOthers
    const [is, should] = [listed.gateway, route.gateway]
    const isSame = is === undefined || should === undefined ? is === should : sameBytes(is, should)
    if (isSame) missing.delete(key)
    return !isSame
  })
  return { removed, added: [...missing.values()] }
}
