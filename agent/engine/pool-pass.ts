import { Blocks } from "../blocks.ts"
import { keyOf, type Pool, type PoolPrefix, type Want } from "../records.ts"
import { type Agent, isOwn, ownerOf, say, usedOf } from "./agent.ts"
import { claim } from "./claim.ts"
import { blockToGive, type Demand, freeOf, type Holding, needsBlock } from "./decide.ts"
import { type Bound, nameFixed } from "./fixed.ts"
import { type Held, readHeld, writeHeld } from "./held.ts"
import { adopt, claimUsed, fence } from "./ownership.ts"
import { release, removeUnused } from "./release.ts"

/** What a pass over a pool goes by besides the records. */
export interface PassOptions {
  /** A container has asked for an address of the network since the last block was claimed or given. */
  readonly isAsked: boolean
  readonly bound: Bound
}

/** What a pass has done. */
export interface Passed {
  readonly held: Held
  /** A block was given to nodes whose containers wait. */
  readonly hasGiven: boolean
  /** After so long there is a block to give back. */
  readonly nextMs: number
}

const none = { hasGiven: false, nextMs: Number.POSITIVE_INFINITY } as const

/** So long a node keeps a block that it can do without: the containers of an update come as others go. */
const SPARE_MS = 2_000

/**
 * Brings one pool on this node from what is to what should be: blocks of others out of the file, own blocks into it, more blocks or fewer. Each
 * step ends with the store and the file in agreement, or leaves what the next pass mends.
 */
export async function passPool(agent: Agent, pool: Pool, { isAsked, bound }: PassOptions): Promise<Passed> {
  let held = await fence(agent, pool, readHeld(agent.surroundings.node, pool.name))
  if (pool.isRemoved) return { ...none, held: await emptyPool(agent, pool, held) }
  held = nameFixed(agent, pool, held, bound)
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
  let [hasGiven, nextMs] = [false, Number.POSITIVE_INFINITY]
  for (const prefix of pool.prefixes) {
    const given = await giveBack(agent, pool, prefix, held, isAsked)
    held = given.held
    hasGiven ||= given.hasGiven
    nextMs = Math.min(nextMs, given.nextMs)
  }
  return { held, hasGiven, nextMs }
}

/** The blocks of one prefix with what is used of them. */
export function holdingsOf(agent: Agent, pool: Pool, prefix: PoolPrefix, held: Held): Holding[] {
  const blocks = Blocks.of(prefix)
  const used = usedOf(agent, pool)
  const mine = [...held.blocks].filter(([block]) => blocks.has(block))
  return mine.map(([block, state]) => ({
    block,
    state: blocks.isUsable(block) ? state : "draining",
    capacity: blocks.capacityOf(block),
    used: BigInt(used.get(block) ?? 0),
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

/** Gives back the blocks that the node could do without for a while; to nodes that wait, one block at once. */
async function giveBack(agent: Agent, pool: Pool, prefix: PoolPrefix, before: Held, isAsked: boolean): Promise<Passed> {
  const { spareSinceMs, surroundings } = agent
  const key = `${pool.name} ${prefix.prefix}`
  for (let held = before; ; ) {
    const demand = demandOf(agent, pool, isAsked)
    const block = blockToGive(holdingsOf(agent, pool, prefix, held), demand)
    if (block === undefined) {
      spareSinceMs.delete(key)
      return { ...none, held }
    }
    const now = surroundings.clock.bootMs()
    const sinceMs = spareSinceMs.get(key) ?? now
    spareSinceMs.set(key, sinceMs)
    const nextMs = sinceMs + SPARE_MS - now
    if (demand.others === "none" && nextMs > 0) return { held, hasGiven: false, nextMs }
    held = await release(agent, pool, held, block)
    if (demand.others !== "none") return { ...none, held, hasGiven: demand.others === "urgent" }
    if (held.blocks.has(block)) return { ...none, held }
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
  await removeUnused(agent, pool, held)
  return held
}
