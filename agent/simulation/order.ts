import type { Pool, PoolPrefix } from "../records.ts"
import { addressesOf } from "./addresses.ts"
import type { Machine } from "./node.ts"
import type { StoreModel } from "./store.ts"

/** The cluster that is looked at. */
interface Cluster {
  readonly model: StoreModel
  readonly pool: Pool
  readonly places: readonly { readonly machine: Machine }[]
}

/**
 * Where something is not as it must be when all is quiet: each block is in its owner's file, and in no other, and all nodes have
 * addresses while there are blocks.
 */
export function disorderOf(world: Cluster): string | undefined {
  const records = world.model.list("block").map(({ value }) => value)
  const recorded = new Map(records.map((record) => [record.prefix, record]))
  for (const { machine } of world.places) {
    const file = machine.fileOf(world.pool.name)
    if (!file) return `${machine.name} has no file`
    const listed = file.sets.flatMap(({ blocks, draining }) => [...blocks, ...draining])
    for (const block of listed) {
      const { owner } = recorded.get(block) ?? {}
      if (owner?.uid !== machine.owner.uid)
        return `the file of ${machine.name} has block ${block}, which ${owner?.name ?? "no node"} owns`
    }
    for (const { prefix, owner, state } of records)
      if (owner.uid === machine.owner.uid && !listed.includes(prefix))
        return `block ${prefix} is lost: ${machine.name} owns it (${state}), and its file has not got it`
  }
  const [set] = world.pool.prefixes
  return set && recorded.size < blockCount(set) ? shortageOf(world) : undefined
}

function shortageOf({ places, pool }: Cluster): string | undefined {
  for (const { machine } of places) {
    const file = machine.fileOf(pool.name)
    const all = (file?.sets ?? []).flatMap((set) => set.blocks.flatMap((block) => addressesOf(block, set)))
    const free = all.filter((address) => !machine.taken.has(address)).length
    if (free < 8) return `${machine.name} has ${free} free addresses, and the pool has free blocks`
  }
  return undefined
}

function blockCount({ prefix, blockLength }: PoolPrefix): number {
  return 2 ** (blockLength - Number(prefix.split("/")[1]))
}
