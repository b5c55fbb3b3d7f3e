import type { PoolFile } from "../../ipam/host-local/main.ts"
import { Blocks, liesIn, toPrefix } from "../blocks.ts"
import type { Pool, PoolPrefix } from "../records.ts"
import type { LostBlock, PoolStatus, PrefixStatus } from "../status.ts"
import { type Agent, blocksOf, keyOfBlock, prefixOf, usedOf } from "./agent.ts"
import { freeOf } from "./decide.ts"
import { readHeld } from "./held.ts"
import { isOurs } from "./ownership.ts"
import { holdingsOf } from "./pool-pass.ts"

/**
 * What there is to say of all pools: those of the registry, and those that only files tell of, since the registry has not come yet, or has them no
 * longer. `faults` are by the names of pools.
 */
export function statusOfPools(agent: Agent, pools: readonly Pool[], faults: ReadonlyMap<string, string>): PoolStatus[] {
  const { node } = agent.surroundings
  const files = node.listPools().flatMap((name) => {
    const file = pools.some((pool) => pool.name === name) ? undefined : node.readPool(name)
    return file ? [poolOf(file)] : []
  })
  return [
    ...pools.map((pool) => statusOfPool(agent, pool, faults.get(pool.name), true)),
    ...files.map((pool) => statusOfPool(agent, pool, faults.get(pool.name), false)),
  ]
}

/** The pool of a file, as far as the file tells it. */
function poolOf({ pool, store, sets, routes }: PoolFile): Pool {
  const network = store.slice(store.lastIndexOf("/") + 1)
  return { name: pool, network, prefixes: sets, routes, quarantineS: 0, routing: "none" }
}

function statusOfPool(agent: Agent, pool: Pool, fault: string | undefined, isRegistered: boolean): PoolStatus {
  const held = readHeld(agent.surroundings.node, pool.name)
  const statusOf = (prefix: PoolPrefix): PrefixStatus => {
    const blocks = Blocks.of(prefix)
    const holdings = holdingsOf(agent, pool, prefix, held)
    const records = blocksOf(agent, pool.name).filter(({ value }) => blocks.has(value.prefix))
    const quarantined = records.filter(({ value }) => value.state === "quarantined").length
    const taken = records.filter(({ value }) => blocks.isUsable(value.prefix)).length
    return {
      prefix: prefix.prefix,
      blocks: holdings.map(({ block, state, used }) => ({ prefix: block, state, used: Number(used) })),
      used: holdings.reduce((sum, { used }) => sum + Number(used), 0),
      free: freeOf(holdings).toString(),
      ...(isRegistered && {
        recorded: records.filter((each) => isOurs(agent, each)).map(({ value }) => value.prefix),
        cluster: {
          free: (blocks.claimable - BigInt(taken)).toString(),
          owned: records.length - quarantined,
          quarantined,
        },
      }),
    }
  }
  return {
    name: pool.name,
    network: pool.network,
    file: agent.surroundings.node.fileOf(pool.name),
    ...(fault !== undefined && { fault }),
    prefixes: pool.prefixes.map(statusOf),
    fixed: held.fixed,
  }
}

/** Blocks that containers of this node have addresses of, and that another node owns, or has owned since. */
export function lostBlocks(agent: Agent, pool: Pool): LostBlock[] {
  const held = readHeld(agent.surroundings.node, pool.name)
  const found: LostBlock[] = []
  for (const block of usedOf(agent, pool).keys()) {
    const stored = agent.view.find("block", keyOfBlock(pool.name, block))
    if (held.blocks.has(block) || !prefixOf(pool, block) || !stored || isOurs(agent, stored)) continue
    const reservations = agent.surroundings.node.reservations(pool.network)
    const containers = reservations.filter(({ address }) => liesIn(toPrefix(address), toPrefix(block)))
    found.push({ pool: pool.name, prefix: block, owner: stored.value.owner.name, containers })
  }
  return found
}
