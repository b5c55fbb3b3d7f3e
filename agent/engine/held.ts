import type { PoolFile } from "../../ipam/host-local/main.ts"
import { Blocks } from "../blocks.ts"
import type { Owner, Pool } from "../records.ts"
import type { NodeFiles } from "./surroundings.ts"

/** What a node holds of one pool, as its file says: what is not in the file is not handed out. */
export interface Held {
  /** In the order in which they are used. */
  readonly blocks: ReadonlyMap<string, "owned" | "draining">
  /** The addresses that pods keep, by "NAMESPACE/NAME/INTERFACE". */
  readonly fixed: Readonly<Record<string, readonly string[]>>
  /** How often the node has lost blocks to others. */
  readonly epoch: number
}

/** What the file in force says; nothing where there is none, or where it was another node's. */
export function readHeld(node: NodeFiles, pool: string): Held {
  const file = node.readPool(pool)
  if (!file || !isOwn(file, node.owner)) return { blocks: new Map(), fixed: {}, epoch: 1 }
  const blocks = new Map<string, "owned" | "draining">()
  for (const set of file.sets) {
    for (const block of set.blocks) blocks.set(block, "owned")
    for (const block of set.draining) blocks.set(block, "draining")
  }
  return { blocks, fixed: file.fixed, epoch: file.epoch }
}

/** Whether a file is of this very node: one of a node of the same name that was made anew lists blocks that are not ours. */
function isOwn({ node: { name, uid, machineId } }: PoolFile, owner: Owner): boolean {
  return name === owner.name && uid === owner.uid && machineId === owner.machineId
}

/** The file of a pool for what a node holds. */
export function poolFileOf(pool: Pool, node: NodeFiles, { blocks, fixed, epoch }: Held): PoolFile {
  const { name, uid, machineId } = node.owner
  const sets = pool.prefixes.map((each) => {
    const arithmetic = Blocks.of(each)
    const mine = [...blocks.keys()].filter((block) => arithmetic.has(block))
    const isUsed = (block: string) => blocks.get(block) === "owned" && arithmetic.isUsable(block)
    return {
      prefix: each.prefix,
      ...(each.gateway !== undefined && { gateway: each.gateway }),
      blockLength: each.blockLength,
      blocks: mine.filter(isUsed),
      draining: mine.filter((block) => !isUsed(block)),
      reserved: mine.flatMap((block) => arithmetic.reservedIn(block)),
    }
  })
  const store = node.storeOf(pool.network)
  return { version: 1, pool: pool.name, epoch, node: { name, uid, machineId }, store, sets, routes: pool.routes, fixed }
}

/** Puts what a node holds in force, unless it is. Throws where the disk refuses: then the file in force is the old one, or this one. */
export function writeHeld(node: NodeFiles, pool: Pool, held: Held): void {
  const next = poolFileOf(pool, node, held)
  if (JSON.stringify(withoutChecksum(node.readPool(pool.name))) === JSON.stringify(next)) return
  node.writePool(next)
}

function withoutChecksum(file: (PoolFile & { checksum?: string }) | undefined): PoolFile | undefined {
  if (!file) return undefined
  const { checksum: _, ...rest } = file
  return rest
}

/** With a block added, in another state, or (undefined) left out. */
export function withBlock(held: Held, block: string, state: "owned" | "draining" | undefined): Held {
  const blocks = new Map(held.blocks)
  if (state === undefined) blocks.delete(block)
  else blocks.set(block, state)
  return { ...held, blocks }
}
