import { type Block, type Kind, keyOf, type Store, type Stored } from "../../../agent/mod.ts"
import { CniError, Code } from "../../../pkg/types/mod.ts"
import { type Command, given, print, word } from "../../../tools/command.ts"
import { storeFlags, withStore } from "./store.ts"

/** One change of a record that takes a node out of the cluster. */
export interface Release {
  readonly what: string
  readonly record: string
  run(store: Store): Promise<boolean>
}

/** `cni-agent ipam release-node` */
export const releaseNode: Command = {
  summary: "Release the blocks of a node that has left the cluster for good",
  words: ["NODE"],
  flags: {
    now: { type: "boolean", help: "free them at once, without quarantine; only when the machine is certainly off" },
    "dry-run": { type: "boolean", help: "print what would be done, and change nothing" },
    ...storeFlags,
  },
  help: `Puts its blocks into quarantine. After the quarantine time of each pool other nodes may claim them; a node that returns earlier takes them
back. With stores without Node objects (etcd, a directory) this command is the way for a node to leave the cluster.

--now frees the blocks at once. Containers of the node that still run keep their addresses, and other nodes hand out the same ones.

Examples:
  cni-agent ipam release-node node-7 --dry-run
  cni-agent ipam release-node node-7
  cni-agent ipam release-node node-7 --now`,
  async run(args, terminal) {
    const [node, isNow, isDry] = [word(args, 0), given(args, "now"), given(args, "dry-run")]
    const done = await withStore(args, terminal, async (store) => {
      const kept = isNow ? [] : (await store.list("fixed")).filter(({ value }) => value.holder?.name === node)
      for (const { key } of kept) terminal.stderr(`Node "${node}" keeps the fixed address of ${key}: --now frees it\n`)
      const releases = await planRelease(store, node, isNow)
      if (isNow)
        terminal.stderr(
          `Warning: containers of node "${node}" that still run have addresses that other nodes now hand out\n`,
        )
      if (isDry) return releases
      for (const release of releases) await carryOut(store, release)
      return releases
    })
    print(args, terminal, {
      json: () => ({ node, dryRun: isDry, changes: done.map(({ what, record }) => ({ what, record })) }),
      text: () =>
        done.map(({ what, record }) => `${isDry ? "would " : ""}${what} ${record}\n`).join("") ||
        `Node "${node}" owns nothing\n`,
    })
  },
}

/** The changes, in an order in which any of them may be the last: what is left is planned again. Throws for a node that no record names. */
export async function planRelease(store: Store, node: string, isNow: boolean): Promise<Release[]> {
  const [nodes, blocks, fixed, wants] = [
    await store.list("node"),
    await store.list("block"),
    await store.list("fixed"),
    await store.list("want"),
  ]
  const isIts = (owner: { name: string } | undefined) => owner?.name === node
  const owners = [...nodes, ...blocks].map(({ value }) => value.owner.name)
  const known = new Set([...owners, ...fixed.flatMap(({ value }) => value.holder?.name ?? [])])
  if (!known.has(node))
    throw new CniError(Code.InvalidNetworkConfig, `Cannot release node "${node}": no record names it`, {
      details: known.size === 0 ? "the store knows no node" : `known are ${[...known].sort().join(", ")}`,
    })
  const own = blocks.filter(({ value }) => isIts(value.owner))
  return [
    ...nodes.filter(({ value }) => isIts(value.owner)).map((record) => removal("node", record)),
    ...wants.filter(({ value }) => isIts(value.owner)).map((record) => removal("want", record)),
    ...(isNow ? own.map((record) => removal("block", record)) : own.flatMap(quarantine)),
    ...(isNow ? fixed.filter(({ value }) => isIts(value.holder)).map(withoutHolder) : []),
  ]
}

function removal<K extends Kind>(what: string, stored: Stored<K>): Release {
  return { what: `remove ${what}`, record: stored.key, run: (store) => store.remove(stored) }
}

/** None for a block that is in quarantine already. */
function quarantine(stored: Stored<"block">): Release[] {
  if (stored.value.state === "quarantined") return []
  const value: Block = { ...stored.value, state: "quarantined" }
  return [
    {
      what: "quarantine block",
      record: keyOf.block(value),
      run: async (store) => (await store.replace(stored, value)) !== undefined,
    },
  ]
}

function withoutHolder(stored: Stored<"fixed">): Release {
  const { holder: _, ...value } = stored.value
  return {
    what: "free fixed address",
    record: stored.key,
    run: async (store) => (await store.replace(stored, value)) !== undefined,
  }
}

async function carryOut(store: Store, { what, record, run }: Release): Promise<void> {
  if (await run(store)) return
  throw new CniError(Code.TryAgainLater, `Cannot ${what} "${record}": it was changed at the same time`, {
    details: "the agent of that node may run: look, and try again",
  })
}
