import { Blocks } from "../blocks.ts"
import { type Block, isSameOwner, keyOf, type Owner, type Pool, type PoolPrefix } from "../records.ts"
import type { Stored } from "../store.ts"
import type { MemoryFile } from "./memory.ts"
import type { Resend } from "./resend.ts"
import type { LogEvent, Surroundings } from "./surroundings.ts"
import type { View } from "./view.ts"

/** What the parts of an agent share. */
export interface Agent {
  readonly surroundings: Surroundings
  readonly view: View
  readonly memory: MemoryFile
  readonly resend: Resend
  readonly signal: AbortSignal
  /** How many addresses of each block are reserved, for each pool, as it was read last; a change clears it. */
  readonly used: Map<string, ReadonlyMap<string, number>>
  /** What is wrong with the fixed addresses of each pool, as it was said last. */
  readonly fixedFaults: Map<string, string>
  /** Since when there is a block that the node can do without, by pool and prefix. */
  readonly spareSinceMs: Map<string, number>
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

/** How many addresses of each block of a pool are reserved; a block without a reservation is left out. */
export function usedOf(agent: Agent, pool: Pool): ReadonlyMap<string, number> {
  const known = agent.used.get(pool.name)
  if (known) return known
  const found = new Map<string, number>()
  for (const address of agent.surroundings.node.takenAddresses(pool.network)) {
    for (const prefix of pool.prefixes) {
      const block = Blocks.of(prefix).blockOf(address)
      if (block !== undefined) found.set(block, (found.get(block) ?? 0) + 1)
    }
  }
  agent.used.set(pool.name, found)
  return found
}

export function say(agent: Agent, level: LogEvent["level"], message: string, about: Partial<LogEvent> = {}): void {
  agent.surroundings.log({ level, message, ...about })
}
