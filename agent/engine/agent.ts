import { Blocks } from "../blocks.ts"
import { type Block, isSameOwner, keyOf, type Owner, type Pool, type PoolPrefix } from "../records.ts"
import type { Stored } from "../store.ts"
import type { MemoryFile } from "./memory.ts"
import type { Resend } from "./resend.ts"
import type { LogEvent, Reservation, Surroundings } from "./surroundings.ts"
import type { View } from "./view.ts"

/** What the parts of an agent share. */
export interface Agent {
  readonly surroundings: Surroundings
  readonly view: View
  readonly memory: MemoryFile
  readonly resend: Resend
  readonly signal: AbortSignal
  /** The reservations by blocks for each pool, as they were read last; a change clears it. */
  readonly used: Map<string, ReadonlyMap<string, Reservation[]>>
  /** Throws `StoreError` where the store went backwards since: its answers are no ground to use a block, or to give one up. */
  requireSameStore(): Promise<void>
}

/** The node that the agent works for. */
export function ownerOf({ surroundings }: Agent): Owner {
  return surroundings.node.owner
}

export function isOwn(agent: Agent, owner: Owner | undefined): boolean {
  return owner !== undefined && isSameOwner(owner, ownerOf(agent))
}

/** The records of a pool's blocks. */
export function blocksOf({ view }: Agent, pool: string): Stored<"block">[] {
  return [...view.records("block").values()].filter(({ value }) => value.pool === pool)
}

/** A record of a block that this node owns from now on. */
export function ownedBy(agent: Agent, pool: string, prefix: string, epoch: number): Block {
  const nonce = agent.surroundings.randomHex(16)
  return { pool, prefix, owner: ownerOf(agent), nonce, epoch, state: "owned" }
}

export function keyOfBlock(pool: string, prefix: string): string {
  return keyOf.block({ pool, prefix })
}

/** The prefix of a pool that a block is one of. */
export function prefixOf(pool: Pool, block: string): PoolPrefix | undefined {
  return pool.prefixes.find((each) => Blocks.of(each).has(block))
}

/** The reservations of a pool's network by the blocks that they lie in. */
export function byBlock(agent: Agent, pool: Pool): ReadonlyMap<string, Reservation[]> {
  const known = agent.used.get(pool.name)
  if (known) return known
  const found = new Map<string, Reservation[]>()
  for (const reservation of agent.surroundings.node.reservations(pool.network)) {
    for (const prefix of pool.prefixes) {
      const block = Blocks.of(prefix).blockOf(reservation.address)
      if (block === undefined) continue
      const inBlock = found.get(block)
      if (inBlock) inBlock.push(reservation)
      else found.set(block, [reservation])
    }
  }
  agent.used.set(pool.name, found)
  return found
}

export function say(agent: Agent, level: LogEvent["level"], message: string, about: Partial<LogEvent> = {}): void {
  agent.surroundings.log({ level, message, ...about })
}
