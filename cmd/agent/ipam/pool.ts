import { type Block, putPool, removePool, type Store } from "../../../agent/mod.ts"
import { CniError, Code } from "../../../pkg/types/mod.ts"
import { type Command, print, word } from "../../../tools/command.ts"
import { fittedTable, type Screen } from "../../../tools/screen.ts"
import { poolFlags, poolOf } from "./pool-flags.ts"
import { durationText, storeFlags, withStore } from "./store.ts"
import { type PoolUse, readPoolUses } from "./use.ts"

/** `cni-agent ipam pool create` */
export const poolCreate: Command = {
  summary: "Create a pool of addresses that the nodes of the cluster share",
  words: ["NAME"],
  flags: { ...poolFlags, ...storeFlags },
  help: `Every agent claims a block of it for its node at once, and writes the file that host-local reads with
{"type": "host-local", "pool": "NAME"}. Pools cannot overlap. Prefix and block length cannot be changed later. For a pool
that is being removed this command cancels the removal.

Examples:
  cni-agent ipam pool create pods --prefix 10.64.0.0/16 --block-length 26 --route 0.0.0.0/0 --routing host-gw
  cni-agent ipam pool create pods --prefix 10.64.0.0/16 --prefix fd00:64::/48 --block-length 26 --block-length 122
  cni-agent ipam pool create lan --prefix 192.0.2.0/24 --block-length 28 --gateway 192.0.2.1 --reserved 192.0.2.0/28`,
  async run(args, terminal) {
    const pool = poolOf(word(args, 0), args)
    const put = await withStore(args, terminal, (store) => putPool(store, pool, { isKept: true }))
    const done = { made: "Made", changed: "Changed", unchanged: "Nothing is to be changed in" }[put]
    print(args, terminal, {
      json: () => pool,
      text: () => `${done} pool "${pool.name}" for network "${pool.network}"\n`,
    })
  },
}

/** `cni-agent ipam pool ls` */
export const poolList: Command = {
  summary: "Show the pools of the cluster, and how many of their blocks nodes own",
  words: [],
  flags: storeFlags,
  help: `Examples:
  cni-agent ipam pool ls
  cni-agent ipam pool ls -o json`,
  async run(args, terminal) {
    const uses = await withStore(args, terminal, readPoolUses)
    print(args, terminal, {
      json: () => uses.map(useAsJson),
      text: (screen) => (uses.length === 0 ? "There are no pools\n" : poolTable(uses, screen) + removals(uses)),
    })
  },
}

/** `cni-agent ipam pool show` */
export const poolShow: Command = {
  summary: "Show one pool with its nodes",
  words: ["POOL"],
  flags: storeFlags,
  help: `Shows prefixes, gateway, routes and reserved addresses, and the number of blocks of each node. "cni-agent ipam blocks" lists the
blocks.

Examples:
  cni-agent ipam pool show pods`,
  async run(args, terminal) {
    const use = await withStore(args, terminal, (store) => requirePool(store, word(args, 0)))
    print(args, terminal, { json: () => useAsJson(use), text: (screen) => showPool(use, screen) })
  },
}

/** `cni-agent ipam pool rm` */
export const poolRemove: Command = {
  summary: "Remove a pool of which no node owns a block",
  words: ["POOL"],
  flags: storeFlags,
  help: `From now on no node claims a block of it. While nodes own blocks the command fails and names the nodes, because containers may have
addresses of these blocks. Agents release unused blocks: remove the pool from the networks, delete the containers, and run the command again.

Examples:
  cni-agent ipam pool rm pods`,
  async run(args, terminal) {
    const name = word(args, 0)
    await withStore(args, terminal, async (store) => {
      await requirePool(store, name)
      const { isGone } = await removePool(store, name)
      if (isGone) return
      const { blocks } = await requirePool(store, name)
      throw new CniError(Code.TryAgainLater, `Cannot remove pool "${name}": ${describeOwners(blocks)}`, {
        details: `no node claims further blocks of it from now on: run this again when the containers with its addresses are gone, or keep the pool by "cni-agent ipam pool create"`,
      })
    })
    print(args, terminal, { json: () => ({ removed: name }), text: () => `Removed pool "${name}"\n` })
  },
}

/** 'nodes own 3 blocks of it: "node-1" 10.64.0.0/26, 10.64.0.64/26; "node-2" 10.64.1.0/26' */
function describeOwners(blocks: readonly Block[]): string {
  if (blocks.length === 0) return "nodes have fixed addresses of it"
  const byNode = Map.groupBy(blocks, ({ owner }) => owner.name)
  const named = [...byNode].map(([name, own]) => {
    const prefixes = own.map(({ prefix }) => prefix)
    const more = prefixes.length - 3
    return `"${name}" ${prefixes.slice(0, 3).join(", ")}${more > 0 ? ` and ${more} more` : ""}`
  })
  return `nodes own ${blocks.length} block${blocks.length === 1 ? "" : "s"} of it: ${named.sort().join("; ")}`
}

/** A pool of the cluster by its name. Throws an error that names those that there are. */
export async function requirePool(store: Store, name: string): Promise<PoolUse> {
  const uses = await readPoolUses(store)
  const found = uses.find(({ pool }) => pool.name === name)
  if (found) return found
  const known = uses.map(({ pool }) => `"${pool.name}"`)
  throw new CniError(Code.InvalidNetworkConfig, `Cannot find pool "${name}" in ${store.name}`, {
    details: known.length === 0 ? "there are no pools" : `there are ${known.join(", ")}`,
  })
}

const poolColumns = [
  { head: "POOL", isWhole: true },
  { head: "PREFIX", isWhole: true },
  { head: "BLOCKS", isWhole: true, falls: 2 },
  { head: "OWNED", isWhole: true },
  { head: "FREE", isWhole: true },
  { head: "QUARANTINED", isWhole: true, falls: 1 },
  { head: "NODES", isWhole: true, falls: 3 },
  "NETWORK",
]

function poolTable(uses: readonly PoolUse[], screen: Screen): string {
  const rows = uses.flatMap(({ pool, prefixes, nodes }) =>
    prefixes.map(({ prefix, blockLength, owned, quarantined, free }) => [
      ...[pool.name, prefix, `/${blockLength}`, String(owned), String(free), String(quarantined)],
      ...[String(nodes.length), pool.network],
    ]),
  )
  return fittedTable(poolColumns, rows, screen)
}

/** What the table of pools does not tell. */
function removals(uses: readonly PoolUse[]): string {
  return uses.flatMap(({ pool }) => (pool.isRemoved ? [`\nPool "${pool.name}" ${beingRemoved}\n`] : [])).join("")
}

const beingRemoved = "is being removed: no node claims a block of it"

function showPool(use: PoolUse, screen: Screen): string {
  const { pool, prefixes, nodes } = use
  const lines = prefixes.flatMap(({ prefix, blockLength, owned, quarantined, free, gateway, reserved }) => [
    `${prefix} in blocks of /${blockLength}: ${owned} owned, ${quarantined} in quarantine, ${free} free`,
    ...(gateway === undefined ? [] : [`  gateway ${gateway}`]),
    ...(reserved.length === 0 ? [] : [`  reserved ${reserved.join(", ")}`]),
  ])
  const more = [
    ...(pool.isRemoved ? [beingRemoved] : []),
    `network "${pool.network}", quarantine ${durationText(pool.quarantineS)}, routing ${pool.routing}`,
    ...pool.routes.map(({ dst, gw }) => `route ${dst}${gw === undefined ? "" : ` via ${gw}`}`),
  ]
  const table = fittedTable(
    ["NODE", "BLOCKS", "QUARANTINED"],
    nodes.map(({ name, owned, quarantined }) => [name, String(owned), String(quarantined)]),
    screen,
  )
  return `${[pool.name, ...[...lines, ...more].map((line) => `  ${line}`)].join("\n")}\n${table === "" ? "" : `\n${table}`}`
}

function useAsJson({ pool, prefixes, nodes }: PoolUse) {
  return { ...pool, prefixes: prefixes.map((each) => ({ ...each, free: String(each.free) })), nodes }
}
