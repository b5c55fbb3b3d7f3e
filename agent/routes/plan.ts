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
import { type Block, isSameOwner, type Node, type PoolPrefix, type Registry } from "../records.ts"

/** The records that routes follow from. */
export interface RouteRecords {
  readonly registry: Registry
  readonly nodes: readonly Node[]
  readonly blocks: readonly Block[]
  /**
   * Set while the store may be one that went back: whether a record may be of the backup. Records that were written since may be missing, and so may
   * be the pool.
   */
  readonly isOld?: (record: Block | Node) => boolean
}

/** A route to a block of another node: `ip route add PREFIX via GATEWAY`. */
export interface BlockRoute {
  /** The block, without host bits. */
  readonly block: Cidr
  readonly gateway: Uint8Array
  /** The name of the node that owns it. */
  readonly node: string
  /** All that tells of it may be of a backup: a route to the block that is there stays. */
  readonly isOld?: true
}

/** What the main table has to have. */
export interface RoutePlan {
  readonly wanted: readonly BlockRoute[]
  /** Blocks whose owner has no record now, as text: a route that is there stays until the block has another owner. */
  readonly kept: ReadonlySet<string>
  /** Set while the store may be one that went back: no other routes are removed without another one in their place. They are to the node's own blocks. */
  readonly removable?: ReadonlySet<string>
  /** Why a block has no route, one for each cause. */
  readonly faults: readonly string[]
}

/**
 * Plans the routes of a node to the blocks of the others, of those pools whose routing is "host-gw": each block by the address that its
 * owner has published in the block's family. A block in quarantine keeps its route, since its containers may still run. The
 * node's own blocks, also those of an earlier owner of its name, have no route.
 */
export function planRoutes(node: string, { registry, nodes, blocks, isOld }: RouteRecords): RoutePlan {
  const wanted: BlockRoute[] = []
  const kept = new Set<string>()
  const removable = new Set<string>()
  const faults = new Set<string>()
  const own = nodes.filter(({ owner }) => owner.name === node).flatMap(({ addresses }) => ipsOf(addresses))
  const recordsByName = Map.groupBy(nodes, ({ owner }) => owner.name)
  for (const record of blocks) {
    const { owner } = record
    if (owner.name === node) {
      if (!isOld?.(record)) removable.add(record.prefix)
      continue
    }
    const pool = Object.hasOwn(registry.pools, record.pool) ? registry.pools[record.pool] : undefined
    if (pool?.routing !== "host-gw") continue
    const block = parseCidr(record.prefix)
    const prefix = block && pool.prefixes.find((one) => isBlockOf(one, block))
    if (block === undefined || prefix === undefined) {
      faults.add(`Cannot route to block ${record.prefix} of pool "${pool.name}": it is not a block of the pool`)
      continue
    }
    if (prefix.gateway !== undefined) {
      faults.add(
        `Cannot route to the blocks of pool "${pool.name}": its prefix ${prefix.prefix} has a gateway, so that all nodes share its link`,
      )
      continue
    }
    const known = recordsByName.get(owner.name) ?? []
    const published = known.find((one) => isSameOwner(one.owner, owner)) ?? known[0]
    const family = familyOf(block.ip) === AF_INET ? "IPv4" : "IPv6"
    const gateway = ipsOf(published?.addresses ?? []).find((ip) => ip.length === block.ip.length)
    if (published === undefined) {
      kept.add(formatCidr(block))
      faults.add(`Cannot route to new blocks of node "${owner.name}": it has no record in the store`)
    } else if (gateway === undefined) {
      faults.add(`Cannot route to the ${family} blocks of node "${owner.name}": it has published no ${family} address`)
    } else if (own.some((ip) => sameBytes(ip, gateway))) {
      faults.add(
        `Cannot route to the ${family} blocks of node "${owner.name}": it has published an address of this node`,
      )
    } else {
      const isOfBackup = isOld?.(record) && isOld(published)
      wanted.push({ block, gateway, node: owner.name, ...(isOfBackup && { isOld: true }) })
    }
  }
  return { wanted, kept, ...(isOld && { removable }), faults: [...faults].sort() }
}

/** Whether it lies in the prefix, has the length of its blocks, and no host bits. */
function isBlockOf({ prefix, blockLength }: PoolPrefix, block: Cidr): boolean {
  const whole = parseCidr(prefix)
  if (whole === undefined || block.prefix !== blockLength || whole.prefix > blockLength) return false
  return contains(whole, block.ip) && sameBytes(networkOf(block), block.ip)
}

function ipsOf(addresses: readonly string[]): Uint8Array[] {
  return addresses.flatMap((text) => parseIp(text) ?? [])
}

/** What has to change in the table. */
export interface RouteChanges {
  readonly removed: readonly ListedRoute[]
  readonly added: readonly BlockRoute[]
}

/**
 * Compares the agent's own routes, as they are, with the plan. A route by another gateway is removed and added, and not replaced: `ip
 * route replace` takes the first route to the prefix, which may be another program's.
 */
export function changesFor({ wanted, kept, removable }: RoutePlan, present: readonly ListedRoute[]): RouteChanges {
  const missing = new Map(wanted.map((route) => [formatCidr(route.block), route]))
  const removed = present.filter((listed) => {
    const prefix = formatCidr({ ip: listed.dst, prefix: listed.prefix })
    const route = missing.get(prefix)
    if (route === undefined) return removable ? removable.has(prefix) : !kept.has(prefix)
    const isSame = listed.gateway !== undefined && sameBytes(listed.gateway, route.gateway)
    if (!isSame && !route.isOld) return true
    missing.delete(prefix)
    return false
  })
  return { removed, added: [...missing.values()] }
}
