import type { ListedRoute } from "../../pkg/netlink/mod.ts"
import { formatCidr, formatIp, networkOf, parseCidr } from "../../pkg/types/mod.ts"
import type { NodeFacts } from "../nodes.ts"

/**
 * A route to a range: `ip route add RANGE via GATEWAY` for another node's, `… add unreachable RANGE` for this node's.
 */
export interface RangeRoute {
  /** The destination, such as "10.244.2.0/24", in canonical form and without host bits. */
  readonly range: string
  /**
   * The other node's address. Absent for a range of this node: packets to its unused addresses must not leave the node.
   */
  readonly gateway?: string
  readonly node: string
}

/** The routes that the main table should have. */
export interface RoutePlan {
  readonly wanted: ReadonlyMap<string, RangeRoute>
  /** Whether routes that are not planned stay, because this node's Node is unknown. */
  readonly keepsOthers: boolean
  /** Why routes are missing: one reason for each cause. */
  readonly faults: readonly string[]
}

/**
 * Plans this node's routes to the ranges of all nodes. The gateway is the other node's internal address of the same
 * family. Compares texts, which is fast, because each change plans all Nodes again, perhaps 5,000.
 */
export function planRoutes(own: string, nodes: ReadonlyMap<string, NodeFacts>): RoutePlan {
  const self = nodes.get(own)
  const mine = self?.ranges.filter(isRoutable) ?? []
  const around = new Set(mine.flatMap(rangesAround))
  const wanted = new Map<string, RangeRoute>()
  for (const range of mine) wanted.set(range, { range, node: own })
  const faults = new Set<string>()
  for (const [node, { ranges, addresses }] of nodes) {
    if (node === own) continue
    for (const range of ranges) {
      if (!isRoutable(range)) continue
      const family = familyName(range)
      const gateway = addresses.find((address) => familyName(address) === family)
      const isMine = around.has(range) || mine.some((one) => isWithin(range, one))
      const other = isMine ? own : wanted.get(range)?.node
      const what = `Cannot route to the ${family} range of node "${node}"`
      if (other !== undefined) faults.add(`${what}: node "${other}" also has ${range}`)
      else if (gateway === undefined) faults.add(`${what}: it has no ${family} address of type InternalIP`)
      else if (self?.addresses.includes(gateway)) faults.add(`${what}: it has the address of this node`)
      else wanted.set(range, { range, gateway, node })
    }
  }
  return { wanted, keepsOthers: self === undefined, faults: [...faults].sort() }
}

export function familyName(text: string): "IPv4" | "IPv6" {
  return text.includes(":") ? "IPv6" : "IPv4"
}

function isRoutable(range: string): boolean {
  return !range.endsWith("/0")
}

/** Returns a range and all ranges that contain it. */
function rangesAround(range: string): string[] {
  const { ip, prefix } = parseCidr(range) ?? { ip: new Uint8Array(4), prefix: 0 }
  return Array.from({ length: prefix }, (_, at) =>
    formatCidr({ ip: networkOf({ ip, prefix: at + 1 }), prefix: at + 1 }),
  )
}

/** Reports whether a range is inside another range and smaller. */
function isWithin(range: string, outer: string): boolean {
  const length = prefixOf(outer)
  if (prefixOf(range) <= length || familyName(range) !== familyName(outer)) return false
  const cidr = parseCidr(range)
  return cidr !== undefined && `${formatIp(networkOf({ ip: cidr.ip, prefix: length }))}/${length}` === outer
}

function prefixOf(range: string): number {
  return Number(range.slice(range.lastIndexOf("/") + 1))
}

export interface PresentRoute {
  readonly range: string
  readonly gateway: string | undefined
  /** The route as the kernel listed it. Absent for a route that is known from the agent's previous pass. */
  readonly listed?: ListedRoute
}

/** Returns the routes that the kernel listed. */
export function presentIn(routes: readonly ListedRoute[]): PresentRoute[] {
  return routes.map((listed) => ({
    range: formatCidr({ ip: listed.dst, prefix: listed.prefix }),
    gateway: listed.gateway && formatIp(listed.gateway),
    listed,
  }))
}

export interface RouteChanges {
  readonly removed: readonly PresentRoute[]
  readonly added: readonly RangeRoute[]
}

/**
 * Compares the agent's own routes with the plan. To change a gateway, deletes and adds the route: `ip route replace`
 * would replace the first route to the prefix, which may belong to another program.
 */
export function changesFor({ wanted, keepsOthers }: RoutePlan, present: Iterable<PresentRoute>): RouteChanges {
  const [removed, right] = [[] as PresentRoute[], new Set<string>()]
  for (const route of present) {
    const should = wanted.get(route.range)
    const isRight = should && should.gateway === route.gateway && !right.has(route.range)
    if (isRight) right.add(route.range)
    else if (should !== undefined || !keepsOthers) removed.push(route)
  }
  return { removed, added: [...wanted.values()].filter(({ range }) => !right.has(range)) }
}
