import type { Route } from "../pkg/types/mod.ts"

/**
 * What the agents of a cluster keep in its store: one registry of pools, and for each block, node and fixed address a
 * record of its own. A record changes by compare-and-swap alone, so that two agents never both believe that they own a block.
 */

/** The addresses of one family in a pool. All blocks have one length: none lies in another. */
export interface PoolPrefix {
  /** Canonical: "10.64.0.0/16", "fd00:64::/48". */
  readonly prefix: string
  /** The prefix length of every block, such as 26 or 122. */
  readonly blockLength: number
  /** The gateway of a link that all nodes share. Without it each block is a subnet, and its first address is the gateway. */
  readonly gateway?: string
  /** Prefixes that are never handed out. A block that lies in one of them is never claimed. */
  readonly reserved: readonly string[]
}

/** A pool of addresses that the nodes of a cluster share. */
export interface Pool {
  readonly name: string
  /** One for each family: a container gets an address of each. */
  readonly prefixes: readonly PoolPrefix[]
  /** The routes of results. */
  readonly routes: readonly Route[]
  /** The CNI network whose containers get these addresses: its reservations are in `<dataDir>/<network>`. */
  readonly network: string
  /** How long the blocks of a node that is gone are not used, in seconds. */
  readonly quarantineS: number
  /** "host-gw": each agent keeps a route to the blocks of the other nodes. */
  readonly routing: "none" | "host-gw"
  /** The pool goes as soon as it has no block: no node claims another, and each gives back those that no container uses. */
  readonly isRemoved?: true
}

/** All pools, in one record: two that overlap cannot be added, also not at the same time. */
export interface Registry {
  readonly pools: Readonly<Record<string, Pool>>
}

/** Who owns a block. A node that was made anew has another UID, and a machine that was installed anew another machine id. */
export interface Owner {
  readonly name: string
  readonly uid: string
  /** machine-id(5); "" on a machine without one. */
  readonly machineId: string
}

/** One block of a pool. Without a record the block is free. */
export interface Block {
  readonly pool: string
  /** Canonical: "10.64.3.0/26". */
  readonly prefix: string
  readonly owner: Owner
  /** Chance, of one claim: a claim whose answer was lost is told by it from that of another agent. */
  readonly nonce: string
  /** The ordinal of this owner among all owners of the block, from 1. It never goes back while the record exists. */
  readonly epoch: number
  /** "quarantined": the node is gone, and its containers may still run. */
  readonly state: "owned" | "draining" | "quarantined"
}

/** One node, as its own agent tells of it. */
export interface Node {
  readonly owner: Owner
  /** The addresses by which other nodes reach it: at most one of each family. */
  readonly addresses: readonly string[]
}

/** An address of each family that one interface of a pod keeps, on any node. */
export interface FixedAddress {
  readonly pool: string
  readonly namespace: string
  readonly pod: string
  readonly ifName: string
  readonly addresses: readonly string[]
  /** The node whose file has the addresses now. Absent: no node has them. */
  readonly holder?: Owner
  readonly nonce: string
}

/** A node that needs a block of a pool that has none left: nodes with an empty block give it back. */
export interface Want {
  readonly pool: string
  readonly owner: Owner
  /** A container has asked for an address, and the node has none: other nodes also give up what they keep in hand. */
  readonly isUrgent?: true
}

/** The records by their kind. */
export interface Records {
  readonly registry: Registry
  readonly block: Block
  readonly node: Node
  readonly fixed: FixedAddress
  readonly want: Want
}

export type Kind = keyof Records

/** The key of a record among those of its kind: "pools", "pods/10.64.3.0/26", "node-1", "db/mysql-0/eth0", "pods/node-1". */
export const keyOf = {
  registry: (): string => "pools",
  block: ({ pool, prefix }: Pick<Block, "pool" | "prefix">): string => `${pool}/${prefix}`,
  node: ({ owner }: Pick<Node, "owner">): string => owner.name,
  fixed: ({ namespace, pod, ifName }: Pick<FixedAddress, "namespace" | "pod" | "ifName">): string =>
    `${namespace}/${pod}/${ifName}`,
  want: ({ pool, owner }: Want): string => `${pool}/${owner.name}`,
}

/** Whether two owners are one: name, UID and machine id. */
export function isSameOwner(a: Owner, b: Owner): boolean {
  return a.name === b.name && a.uid === b.uid && a.machineId === b.machineId
}
