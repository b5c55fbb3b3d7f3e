import { askAgent, type Block, type Status } from "../../../agent/mod.ts"
import { type Command, print } from "../../../tools/command.ts"
import { fittedTable, type Screen } from "../../../tools/screen.ts"
import { requirePool } from "./pool.ts"
import { storeFlags, withStore } from "./store.ts"
import { readBlocks } from "./use.ts"

/** A block, and how many of its addresses containers have, where that is known: of blocks of this node, when its agent runs. */
interface ShownBlock extends Block {
  readonly used?: number
}

/** `cni-agent ipam blocks` */
export const blockList: Command = {
  summary: "Show the blocks that nodes own",
  words: ["[POOL]"],
  flags: storeFlags,
  help: `For each block its node, its state and its epoch, which counts the owners it has had. "used" counts addresses of containers; only the
agent of the block's node knows them. States: "owned"; "draining" (being released); "quarantined" (its node is missing).

Examples:
  cni-agent ipam blocks
  cni-agent ipam blocks pods -o json`,
  async run(args, terminal) {
    const [pool] = args.words
    const blocks = await withStore(args, terminal, async (store, { socket }) => {
      const all = await readBlocks(store)
      const wanted = all.filter((block) => pool === undefined || block.pool === pool)
      if (pool !== undefined && wanted.length === 0) await requirePool(store, pool)
      return withUse(wanted, await statusOrNone(socket))
    })
    print(args, terminal, {
      json: () => blocks,
      text: (screen) => (blocks.length === 0 ? "No node owns a block\n" : blockTable(blocks, screen)),
    })
  },
}

/** Undefined where no agent runs on this node. */
async function statusOrNone(socket: string): Promise<Status | undefined> {
  try {
    return await askAgent(socket)
  } catch {
    return undefined
  }
}

function withUse(blocks: readonly Block[], status: Status | undefined): ShownBlock[] {
  return blocks.map((block) => {
    const prefixes = status?.pools.find(({ name }) => name === block.pool)?.prefixes ?? []
    const own = prefixes.flatMap((each) => each.blocks).find(({ prefix }) => prefix === block.prefix)
    return own && status?.node.name === block.owner.name ? { ...block, used: own.used } : block
  })
}

const columns = [
  { head: "BLOCK", isWhole: true },
  { head: "POOL", isWhole: true },
  { head: "NODE", isWhole: true },
  { head: "STATE", isWhole: true },
  { head: "EPOCH", isWhole: true, falls: 2 },
  { head: "USED", isWhole: true, falls: 3 },
  { head: "UID", falls: 1 },
]

function blockTable(blocks: readonly ShownBlock[], screen: Screen): string {
  const rows = blocks.map(({ prefix, pool, owner, state, epoch, used }) => [
    ...[prefix, pool, owner.name],
    state === "owned" ? state : { text: state, tone: "warning" as const },
    ...[String(epoch), used === undefined ? "?" : String(used), owner.uid],
  ])
  return fittedTable(columns, rows, screen)
}
