import { Blocks } from "../blocks.ts"
import { type Block, keyOf, type Pool, type PoolPrefix } from "../records.ts"
import type { Stored } from "../store.ts"
import { type Agent, blocksOf, isOwn, keyOfBlock, ownedBy, ownerOf, say } from "./agent.ts"
import { type Held, withBlock, writeHeld } from "./held.ts"
import { LOST } from "./memory.ts"
import { type Answer, isMade } from "./resend.ts"

/**
 * Claims one more block of a prefix: in the store, then in the file. A free one first; then one whose quarantine has ended. Answers what
 * the node holds then, or `undefined` where the pool has none. A crash in between leaves a block that is owned and in no file: `adopt`.
 */
export async function claim(agent: Agent, pool: Pool, prefix: PoolPrefix, held: Held): Promise<Held | undefined> {
  const answer = (await claimFree(agent, pool, prefix)) ?? (await takeOver(agent, pool, prefix))
  if (!answer) return undefined
  if (!(await isStillPool(agent, pool, answer.stored.value.prefix))) {
    await agent.resend.remove(answer.stored)
    agent.view.drop("block", answer.stored.key)
    return undefined
  }
  return await use(agent, pool, held, answer)
}

/**
 * Puts a block in the file that the store has answered is ours. Its epoch is on the disk before: a file never names a block of which no epoch is
 * known. Throws `StoreError` where the answer is too old.
 */
export async function use(
  agent: Agent,
  pool: Pool,
  held: Held,
  { stored: { key, value, revision }, sentMs }: Answer<"block">,
): Promise<Held> {
  await agent.requireSameStore()
  agent.memory.setEpoch(key, value.epoch, revision)
  const next = withBlock(held, value.prefix, "owned")
  writeHeld(agent, pool, next, { what: value.prefix, sentMs })
  say(agent, "info", `Block ${value.prefix} of pool "${pool.name}" is this node's`, {
    pool: pool.name,
    block: value.prefix,
  })
  return next
}

async function claimFree(agent: Agent, pool: Pool, prefix: PoolPrefix): Promise<Answer<"block"> | undefined> {
  const isTaken = (block: string) => agent.view.find("block", keyOfBlock(pool.name, block)) !== undefined
  for (const block of Blocks.of(prefix).candidates(ownerOf(agent).name, isTaken)) {
    const value = ownedBy(agent, pool.name, block, 1)
    const answer = await createBlock(agent, value)
    if (isMade(answer, value)) return answer
  }
  return undefined
}

/**
 * Creates the record of a block. Where the block was lost before, its new epoch is on the disk first: an agent that starts after a crash knows
 * the record as its own, also when a container of this node has an address of the block. It stays lost where another node has it.
 */
export async function createBlock(agent: Agent, value: Block): Promise<Answer<"block">> {
  const { memory, resend, view } = agent
  const key = keyOf.block(value)
  const isLost = memory.content.epochs[key] === LOST
  if (isLost) memory.setEpoch(key, value.epoch, 0n)
  const answer = await resend.create("block", key, value)
  view.put(answer.stored)
  if (isLost && !isOwn(agent, answer.stored.value.owner)) memory.setEpoch(key, LOST, 0n)
  return answer
}

/**
 * Takes a block over whose owner is gone, after this agent has itself seen that very version of the record for the whole quarantine, by boot
 * time; the one that was left longest ago first. An owner that is a member again has its agent take the block back. A block of which
 * no address may be handed out, because it was reserved since, stays in quarantine.
 */
async function takeOver(agent: Agent, pool: Pool, prefix: PoolPrefix): Promise<Answer<"block"> | undefined> {
  const blocks = Blocks.of(prefix)
  const isOfUse = (block: string) => blocks.has(block) && blocks.isUsable(block)
  const ripe = blocksOf(agent, pool.name).filter((each) => isOfUse(each.value.prefix) && isRipe(agent, pool, each))
  if (ripe.length === 0) return undefined
  const members = await agent.surroundings.store.members()
  ripe.sort((a, b) => (a.revision < b.revision ? -1 : 1))
  for (const stored of ripe) {
    const { owner, prefix: block, epoch } = stored.value
    if (members.length === 0 || members.some(({ name, uid }) => name === owner.name && uid === owner.uid)) continue
    const value = ownedBy(agent, pool.name, block, epoch + 1)
    agent.memory.setEpoch(stored.key, value.epoch, 0n) // known also to the agent that starts after a crash: the record is its own
    const answer = await agent.resend.replace(stored, value)
    if (answer) agent.view.put(answer.stored)
    else agent.view.drop("block", stored.key)
    if (!isMade(answer, value)) continue
    say(agent, "warning", `Block ${block} of pool "${pool.name}" was taken over: node "${owner.name}" is gone`, {
      pool: pool.name,
      block,
    })
    return answer
  }
  return undefined
}

function isRipe({ memory, surroundings }: Agent, pool: Pool, { key, version, value }: Stored<"block">): boolean {
  const seen = memory.content.quarantined[key]
  if (value.state !== "quarantined" || seen?.version !== version) return false
  return surroundings.clock.bootMs() - seen.sinceMs >= pool.quarantineS * 1000
}

/**
 * Whether a block can be used after the claim: a pool that is being removed may have been found without blocks just before, and so may
 * addresses that have been reserved since.
 */
async function isStillPool({ surroundings: { store } }: Agent, pool: Pool, block: string): Promise<boolean> {
  const stored = await store.find("registry", keyOf.registry())
  const now = stored?.value.pools[pool.name]
  return (
    now !== undefined &&
    !now.isRemoved &&
    JSON.stringify(now.prefixes.map(placeOf)) === JSON.stringify(pool.prefixes.map(placeOf)) &&
    now.prefixes.map((each) => Blocks.of(each)).some((each) => each.has(block) && each.isUsable(block))
  )
}

function placeOf({ prefix, blockLength }: PoolPrefix): string {
  return `${prefix} ${blockLength}`
}
