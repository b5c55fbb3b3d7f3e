import type { Pool } from "../records.ts"
import { type Agent, blocksOf, isOwn, keyOfBlock, prefixOf, say } from "./agent.ts"
import { type Held, withBlock, writeHeld } from "./held.ts"

/**
 * Gives a block back: no new address of it (the file), the proof that no container has one (under host-local's lock), the file without it,
 * then the record. A container that got an address just before keeps the block. A crash at any line leaves a block that is owned, and that
 * the next pass gives back or takes into use.
 */
export async function release(agent: Agent, pool: Pool, held: Held, block: string): Promise<Held> {
  const { node } = agent.surroundings
  const draining = withBlock(held, block, "draining")
  writeHeld(agent, pool, draining)
  if (node.reservationsIn(pool.network, block).length > 0) {
    if (pool.isRemoved) return draining
    const kept = withBlock(held, block, "owned")
    writeHeld(agent, pool, kept)
    return kept
  }
  const without = withBlock(held, block, undefined)
  writeHeld(agent, pool, without)
  await removeRecord(agent, pool.name, block)
  say(agent, "info", `Block ${block} of pool "${pool.name}" is given back`, { pool: pool.name, block })
  return without
}

/** Removes the records of blocks of ours that are not in the file and that no container uses: of claims that were not used. */
export async function removeUnused(agent: Agent, pool: Pool, held: Held): Promise<void> {
  for (const { value } of blocksOf(agent, pool.name)) {
    if (held.blocks.has(value.prefix) || !isOwn(agent, value.owner) || !prefixOf(pool, value.prefix)) continue
    const inUse = agent.surroundings.node.reservationsIn(pool.network, value.prefix)
    if (inUse.length === 0) await removeRecord(agent, pool.name, value.prefix)
  }
}

/** Removes the record of a block of ours that is in no file. One that was changed since, by a sweep for instance, is read again. */
async function removeRecord(agent: Agent, pool: string, block: string): Promise<void> {
  const key = keyOfBlock(pool, block)
  let stored = agent.view.find("block", key)
  while (stored && isOwn(agent, stored.value.owner)) {
    const isRemoved = await agent.resend.remove(stored)
    stored = isRemoved ? undefined : await agent.surroundings.store.find("block", key)
    if (stored) agent.view.put(stored)
    else agent.view.drop("block", key)
  }
}
