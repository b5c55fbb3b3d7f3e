import type { PoolFile } from "../../ipam/host-local/main.ts"
import { Blocks } from "../blocks.ts"
import type { Owner, Pool } from "../records.ts"
import { StoreError } from "../store.ts"
import type { Agent } from "./agent.ts"
import type { NodeFiles } from "./surroundings.ts"

/** What a node holds of one pool, as its file says: what is not in the file is not handed out. */
export interface Held {
  /** In the order in which they are used. */
  readonly blocks: ReadonlyMap<string, "owned" | "draining">
  /** The addresses that pods keep, by "NAMESPACE/NAME/INTERFACE"; none for a pod that waits for them. */
  readonly fixed: Readonly<Record<string, readonly string[]>>
  /** Further pods that wait, by their digests, as in the file. */
  readonly fixedElsewhere?: string
  /** How often the node has lost blocks to others. */
  readonly epoch: number
}

/** Reads the blocks and fixed addresses of a pool's file. Without a file of this very node it holds nothing. */
export function readHeld(node: NodeFiles, pool: string): Held {
  const file = node.readPool(pool)
  return file && isOwn(file, node.owner) ? contentOf(file).held : { blocks: new Map(), fixed: {}, epoch: 1 }
}

/** A pass asks for what a file has some six times: it is read once. */
const known = new WeakMap<PoolFile, { readonly held: Held; readonly text: string }>()

function contentOf(file: PoolFile & { checksum?: string }): { readonly held: Held; readonly text: string } {
  const found = known.get(file)
  if (found) return found
  const { checksum: _, ...rest } = file
  const content = { held: heldOf(file), text: JSON.stringify(rest) }
  known.set(file, content)
  return content
}

function heldOf(file: PoolFile): Held {
  const blocks = new Map<string, "owned" | "draining">()
  for (const set of file.sets) {
    for (const block of set.blocks) blocks.set(block, "owned")
    for (const block of set.draining) blocks.set(block, "draining")
  }
  const { fixed, fixedElsewhere = "", epoch } = file
  return { blocks, fixed, fixedElsewhere, epoch }
}

/** Compares the node of a file with this one by name, UID and machine id: a node that was made anew has the name of the old one. */
function isOwn({ node: { name, uid, machineId } }: PoolFile, owner: Owner): boolean {
  return name === owner.name && uid === owner.uid && machineId === owner.machineId
}

/** The file of a pool for what a node holds. */
export function poolFileOf(pool: Pool, node: NodeFiles, held: Held): PoolFile {
  const { blocks, fixed, fixedElsewhere = "", epoch } = held
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
  const { routes } = pool
  const file: PoolFile = {
    version: 1,
    pool: pool.name,
    epoch,
    node: { name, uid, machineId },
    store,
    sets,
    routes,
    fixed,
  }
  return fixedElsewhere === "" ? file : { ...file, fixedElsewhere }
}

/** What the store has answered is this node's, and the file has not got yet. */
export interface Gained {
  /** A block, or "NAMESPACE/NAME/INTERFACE" of fixed addresses. */
  readonly what: string
  /** When the request was sent, by CLOCK_BOOTTIME. */
  readonly sentMs: number
}

/**
 * Puts what a node holds in force, unless it is. The file gets nothing new but `gained`, and that only while the answer is fresh: an agent
 * that stood still since may have lost it. Throws `StoreError` for the rest: `adopt` asks for it anew. Throws where the disk refuses: then the
 * file in force is the old one, or this one.
 */
export function writeHeld({ surroundings }: Agent, pool: Pool, held: Held, gained?: Gained): void {
  const { node, clock } = surroundings
  const next = poolFileOf(pool, node, held)
  const inForce = node.readPool(pool.name)
  if (inForce && contentOf(inForce).text === JSON.stringify(next)) return
  for (const what of newIn(heldOf(next), readHeld(node, pool.name))) {
    const ageMs = what === gained?.what ? clock.bootMs() - gained.sentMs : undefined
    if (ageMs !== undefined && ageMs <= freshMs(pool)) continue
    const reason = ageMs === undefined ? "the file has lost it since" : `the store's answer is ${ageMs} ms old`
    throw new StoreError(`Cannot use "${what}" of pool "${pool.name}": ${reason}`, "unknown")
  }
  node.writePool(next)
}

const FRESH_MIN_MS = 1_000
const FRESH_MAX_MS = 60_000

/**
 * For how long after the request an answer that gives something to this node is used. Another node gets it after the whole quarantine at the
 * soonest, which an operator may shorten in this time. A pool without quarantine promises nothing.
 */
function freshMs({ quarantineS }: Pool): number {
  return Math.min(Math.max(quarantineS * 500, FRESH_MIN_MS), FRESH_MAX_MS)
}

/** The blocks and fixed addresses that are in one and not in the other. */
function newIn(next: Held, before: Held): string[] {
  const blocks = [...next.blocks.keys()].filter((block) => !before.blocks.has(block))
  const isNew = (key: string, addresses: readonly string[]) =>
    addresses.length > 0 && before.fixed[key]?.join() !== addresses.join()
  const fixed = Object.entries(next.fixed).filter(([key, addresses]) => isNew(key, addresses))
  return [...blocks, ...fixed.map(([key]) => key)]
}

/** With a block added, in another state, or (undefined) left out. */
export function withBlock(held: Held, block: string, state: "owned" | "draining" | undefined): Held {
  const blocks = new Map(held.blocks)
  if (state === undefined) blocks.delete(block)
  else blocks.set(block, state)
  return { ...held, blocks }
}
