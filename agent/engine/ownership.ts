import { Blocks } from "../blocks.ts"
import type { Block, Pool } from "../records.ts"
import type { Stored } from "../store.ts"
import { type Agent, blocksOf, isOwn, keyOfBlock, ownedBy, prefixOf, say, usedOf } from "./agent.ts"
import { createBlock, use } from "./claim.ts"
import { type Held, withBlock, writeHeld } from "./held.ts"
import { LOST } from "./memory.ts"
import { removeUnused } from "./release.ts"
import { isMade } from "./resend.ts"

/**
 * Compares each block of the file with its record. A block that another node owns, or that was another node's since, leaves the file at once: its
 * containers keep running, and are named by `lostBlocks`. A block in quarantine is taken back, one without a record is claimed again:
 * a store that came from a backup does not know it. One that is no block of the pool, which was made anew with blocks of another length, is lost too. The view may be old, so the store is asked before a block is given up.
 */
export async function fence(agent: Agent, pool: Pool, held: Held): Promise<Held> {
  let now = held
  for (const block of held.blocks.keys()) {
    const stored = agent.view.find("block", keyOfBlock(pool.name, block))
    if (isOurs(agent, stored) && stored?.value.state === "owned") continue
    const found = prefixOf(pool, block) ? await regain(agent, pool, block) : undefined
    if (!isOurs(agent, found)) now = await giveUp(agent, pool, now, block, found)
  }
  return now
}

/** Whether a record is of this node, and has the epoch that it had when this node got the block. */
export function isOurs(agent: Agent, stored: Stored<"block"> | undefined): boolean {
  if (!stored || !isOwn(agent, stored.value.owner)) return false
  const known = agent.memory.content.epochs[stored.key]
  return known === undefined || known === stored.value.epoch
}

/** Has the record of a block say again that it is ours, where no other node has it; answers the record. */
async function regain(agent: Agent, pool: Pool, block: string): Promise<Stored<"block"> | undefined> {
  const key = keyOfBlock(pool.name, block)
  const found = await agent.surroundings.store.find("block", key)
  const record = found ? await retake(agent, found) : await recreate(agent, pool, block)
  if (record) agent.view.put(record)
  else agent.view.drop("block", key)
  return record
}

async function retake(agent: Agent, found: Stored<"block">): Promise<Stored<"block"> | undefined> {
  if (!isOurs(agent, found) || found.value.state === "owned") return found
  const { pool, prefix, epoch } = found.value
  return (await agent.resend.replace(found, ownedBy(agent, pool, prefix, epoch)))?.stored
}

async function recreate(agent: Agent, pool: Pool, block: string): Promise<Stored<"block">> {
  return (await agent.resend.create("block", keyOfBlock(pool.name, block), ownedAgain(agent, pool, block))).stored
}

/** The record of a block that was ours, of the epoch that it had. */
function ownedAgain(agent: Agent, pool: Pool, block: string): Block {
  return ownedBy(agent, pool.name, block, agent.memory.content.epochs[keyOfBlock(pool.name, block)] || 1)
}

async function giveUp(
  agent: Agent,
  pool: Pool,
  held: Held,
  block: string,
  found: Stored<"block"> | undefined,
): Promise<Held> {
  await agent.requireSameStore()
  agent.memory.setEpoch(keyOfBlock(pool.name, block), LOST, 0n)
  const next = { ...withBlock(held, block, undefined), epoch: held.epoch + 1 }
  writeHeld(agent, pool, next)
  const owner = found?.value.owner.name ?? "another node"
  say(agent, "error", `Block ${block} of pool "${pool.name}" is lost: node "${owner}" owns it now`, {
    pool: pool.name,
    block,
  })
  return next
}

/**
 * Takes blocks into the file that the store says are ours: of a claim or a release that was killed midway. The record gets a new
 * nonce first: a removal whose answer was lost may still be on its way, and no longer fits then. A block that was another node's since is
 * left while containers of ours have addresses of it.
 */
export async function adopt(agent: Agent, pool: Pool, held: Held): Promise<Held> {
  let now = held
  const inUse = usedOf(agent, pool)
  for (const stored of blocksOf(agent, pool.name)) {
    const { prefix, owner, epoch } = stored.value
    if (now.blocks.has(prefix) || !isOwn(agent, owner) || !prefixOf(pool, prefix)) continue
    if (!isOurs(agent, stored) && inUse.has(prefix)) continue
    await agent.requireSameStore()
    const value = ownedBy(agent, pool.name, prefix, epoch)
    const answer = await agent.resend.replace(stored, value)
    if (answer) agent.view.put(answer.stored)
    else agent.view.drop("block", stored.key)
    if (isMade(answer, value)) now = await use(agent, pool, now, answer)
  }
  return now
}

/**
 * Claims blocks again that containers of ours have addresses of, and that no node owns: another node would give the addresses a second time. A
 * record that another claim of ours has made is left to `adopt`.
 */
export async function claimUsed(agent: Agent, pool: Pool, held: Held): Promise<Held> {
  let now = held
  for (const block of usedOf(agent, pool).keys()) {
    const isFree = !held.blocks.has(block) && !agent.view.find("block", keyOfBlock(pool.name, block))
    if (!isFree || !isUsable(pool, block)) continue
    const value = ownedAgain(agent, pool, block)
    const answer = await createBlock(agent, value)
    if (isMade(answer, value)) now = await use(agent, pool, now, answer)
  }
  return now
}

/** Whether a block is one of the pool of which addresses may be handed out. */
function isUsable(pool: Pool, block: string): boolean {
  const prefix = prefixOf(pool, block)
  return prefix !== undefined && Blocks.of(prefix).isUsable(block)
}

/**
 * While the store is one that went backwards: what the file has is written to the store again, also over a record that came from the
 * backup, and nothing is given up or taken. `restored` is the revision at which that was found: what was written since is another
 * agent's word, and stands. An agent that found it later may have claimed a block that another file has: each takes back what its own file has not got.
 * The file may have been torn and not be whole again: blocks of containers of ours that were not lost are this node's, too, where
 * the record is of an owner before: its epoch is a smaller one.
 */
export async function reassert(agent: Agent, pool: Pool, held: Held, restored: bigint): Promise<void> {
  const { epochs } = agent.memory.content
  const isUnlisted = (block: string) => !held.blocks.has(block) && epochs[keyOfBlock(pool.name, block)] !== LOST
  const unlisted = [...usedOf(agent, pool).keys()].filter((block) => isUnlisted(block) && isUsable(pool, block))
  for (const block of [...held.blocks.keys(), ...unlisted]) {
    const key = keyOfBlock(pool.name, block)
    const stored = agent.view.find("block", key)
    if (isOurs(agent, stored) && stored?.value.state === "owned") continue
    const found = await agent.surroundings.store.find("block", key)
    if (!found || isOurs(agent, found)) await regain(agent, pool, block)
    else if ((held.blocks.has(block) || found.value.epoch < (epochs[key] ?? 0)) && found.revision <= restored) {
      const epoch = Math.max(found.value.epoch, epochs[key] ?? 0) + 1
      agent.memory.setEpoch(key, epoch, 0n)
      const made = await agent.resend.replace(found, ownedBy(agent, pool.name, block, epoch))
      if (made) agent.view.put(made.stored)
    }
  }
  await removeUnused(agent, pool, held)
}
