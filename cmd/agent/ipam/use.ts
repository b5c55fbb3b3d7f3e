import { type Block, Blocks, listPools, type Pool, type PoolPrefix, type Store } from "../../../agent/mod.ts"
import { sortedByNames } from "../../../tools/tables.ts"

/** A pool with what the records of its blocks say. */
export interface PoolUse {
  readonly pool: Pool
  readonly prefixes: readonly PrefixUse[]
  readonly nodes: readonly { readonly name: string; readonly owned: number; readonly quarantined: number }[]
  readonly blocks: readonly Block[]
}

interface PrefixUse extends PoolPrefix {
  readonly owned: number
  readonly quarantined: number
  /** Blocks without an owner that can be claimed. */
  readonly free: bigint
}

/** All pools of the cluster, by name. */
export async function readPoolUses(store: Store): Promise<PoolUse[]> {
  const [pools, blocks] = await Promise.all([listPools(store), readBlocks(store)])
  return sortedByNames(pools, ({ name }) => [name]).map((pool) => useOf(pool, blocks))
}

/** All blocks that have an owner, in the order of their pools and addresses. */
export async function readBlocks(store: Store): Promise<Block[]> {
  const blocks = (await store.list("block")).map(({ value }) => value)
  return sortedByNames(blocks, ({ pool, prefix }) => [pool, prefix])
}

/** What is owned of a pool. */
export function useOf(pool: Pool, all: readonly Block[]): PoolUse {
  const blocks = all.filter((block) => block.pool === pool.name)
  const byNode = Map.groupBy(blocks, ({ owner }) => owner.name)
  const nodes = sortedByNames([...byNode], ([name]) => [name]).map(([name, own]) => {
    const quarantined = own.filter(({ state }) => state === "quarantined").length
    return { name, owned: own.length - quarantined, quarantined }
  })
  return { pool, prefixes: pool.prefixes.map((prefix) => prefixUse(prefix, blocks)), nodes, blocks }
}

function prefixUse(each: PoolPrefix, all: readonly Block[]): PrefixUse {
  const blocks = Blocks.of(each)
  const own = all.filter(({ prefix }) => blocks.has(prefix))
  const quarantined = own.filter(({ state }) => state === "quarantined").length
  const free = blocks.claimable - BigInt(own.length)
  return { ...each, owned: own.length - quarantined, quarantined, free: free < 0n ? 0n : free }
}
