import { Blocks } from "../blocks.ts"
import { keyOf, type Pool, type PoolPrefix, type Want } from "../records.ts"
import { type Agent, blocksOf, byBlock, isOwn, ownerOf, prefixOf, say } from "./agent.ts"
import { claim } from "./claim.ts"
import { blockToGive, type Demand, freeOf, type Holding, needsBlock } from "./decide.ts"
import { type Held, readHeld, writeHeld } from "./held.ts"
import { adopt, claimUsed, fence } from "./ownership.ts"
import { release, removeRecord } from "./release.ts"

/** What a pass over a pool goes by besides the records. */
export interface PassOptions {
  /** A container has asked for an address of the network since the last block was claimed or given. */
  readonly isAsked: boolean
}

/** What a pass has done. */
export interface Passed {
  readonly held: Held
  /** A block was given to nodes whose containers wait. */
  readonly hasGiven: boolean
}

/**
 * Brings one pool on this node from what is to what should be: blocks of others out of the file, own blocks into it, more blocks or fewer. Each
 * step ends with the store and the file in agreement, or leaves what the next pass mends.
 */
export async function passPool(agent: Agent, pool: Pool, { isAsked }: PassOptions): Promise<Passed> {
  let held = await fence(agent, pool, readHeld(agent.surroundings.node, pool.name))
  if (pool.isRemoved) return { held: await emptyPool(agent, pool, held), hasGiven: false }
  held = await claimUsed(agent, pool, held)
  held = await adopt(agent, pool, held)
  writeHeld(agent, pool, held)
  for (const [block, state] of held.blocks) if (state === "draining") held = await release(agent, pool, held, block)
  const starving: PoolPrefix[] = []
  for (const prefix of pool.prefixes) {
    const refilled = await refill(agent, pool, prefix, held, isAsked)
    held = refilled.held
    if (refilled.isStarving) starving.push(prefix)
  }
  await want(agent, pool, starving.length > 0 && starving, held, isAsked)
  let hasGiven = false
  for (const prefix of pool.prefixes) {
    for (let isSpare = true; isSpare; ) {
      const demand = demandOf(agent, pool, isAsked)
      const block = blockToGive(holdingsOf(agent, pool, prefix, held), demand)
      if (block === undefined) break
      held = await release(agent, pool, held, block)
      hasGiven ||= demand.others === "urgent"
      isSpare = demand.others === "none" && !held.blocks.has(block) // nodes that wait get one at a time
    }
  }
  return { held, hasGiven }
}

/** The blocks of one prefix with what is used of them. */
export function holdingsOf(agent: Agent, pool: Pool, prefix: PoolPrefix, held: Held): Holding[] {
  const blocks = Blocks.of(prefix)
  const used = byBlock(agent, pool)
  const mine = [...held.blocks].filter(([block]) => blocks.has(block))
  return mine.map(([block, state]) => ({
    block,
    state: blocks.isUsable(block) ? state : "draining",
    capacity: blocks.capacityOf(block),
    used: BigInt(used.get(block)?.length ?? 0),
  }))
}

/** What the wants of other nodes say. */
function demandOf(agent: Agent, pool: Pool, isOwnDemand: boolean): Demand {
  const wants = [...agent.view.records("want").values()].filter(
    ({ value }) => value.pool === pool.name && !isOwn(agent, value.owner),
  )
  const others = wants.some(({ value }) => value.isUrgent) ? "urgent" : wants.length > 0 ? "some" : "none"
  return { others, isOwn: isOwnDemand }
}

async function refill(
  agent: Agent,
  pool: Pool,
  prefix: PoolPrefix,
  before: Held,
  isAsked: boolean,
): Promise<{ held: Held; isStarving: boolean }> {
  let held = before
  for (;;) {
    const holdings = holdingsOf(agent, pool, prefix, held)
    if (!needsBlock(holdings, { others: "none", isOwn: isAsked })) return { held, isStarving: false }
    if (!needsBlock(holdings, demandOf(agent, pool, isAsked))) return { held, isStarving: true }
    const claimed = await claim(agent, pool, prefix, held)
    if (!claimed) return { held, isStarving: true }
    held = claimed
  }
}

/** Keeps the want of this node: there while it needs a block and the pool has none. */
async function want(
  agent: Agent,
  pool: Pool,
  starving: false | readonly PoolPrefix[],
  held: Held,
  isAsked: boolean,
): Promise<void> {
  const { view, surroundings } = agent
  const isEmpty = (prefix: PoolPrefix) => freeOf(holdingsOf(agent, pool, prefix, held)) === 0n
  const isUrgent = isAsked && starving !== false && starving.some(isEmpty)
  const value: Want = { pool: pool.name, owner: ownerOf(agent), ...(isUrgent && { isUrgent }) }
  const key = keyOf.want(value)
  const known = view.find("want", key)
  if (!starving) {
    if (known && (await surroundings.store.remove(known))) view.drop("want", key)
    return
  }
  if (known?.value.isUrgent === value.isUrgent && known && isOwn(agent, known.value.owner)) return
  const made = known
    ? await surroundings.store.replace(known, value)
    : await surroundings.store.create("want", key, value)
  if (made) view.put(made)
  const reason = `Pool "${pool.name}" has no free block for this node: other nodes were asked to give an empty one back`
  if (made && !known) say(agent, "warning", reason, { pool: pool.name })
}

/** A pool that is being removed: all blocks without a container are given back, and those of claims that were killed midway. */
async function emptyPool(agent: Agent, pool: Pool, before: Held): Promise<Held> {
  let held = before
  for (const block of before.blocks.keys()) held = await release(agent, pool, held, block)
  for (const { value } of blocksOf(agent, pool.name)) {
    if (held.blocks.has(value.prefix) || !isOwn(agent, value.owner) || !prefixOf(pool, value.prefix)) continue
    const inUse = agent.surroundings.node.reservationsIn(pool.network, value.prefix)
    if (inUse.length === 0) await removeRecord(agent, pool.name, value.prefix)
  }
  return held
}
