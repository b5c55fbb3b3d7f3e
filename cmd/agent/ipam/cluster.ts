import type { Store } from "../../../agent/mod.ts"
import { type Command, given, print, UsageError } from "../../../tools/command.ts"
import { fittedTable, type Screen } from "../../../tools/screen.ts"
import { sortedByNames } from "../../../tools/tables.ts"
import { storeFlags, withStore } from "./store.ts"
import { readPoolUses } from "./use.ts"

/** A node of the cluster, as the records tell of it. */
interface ClusterNode {
  readonly node: string
  readonly uid: string
  readonly addresses: readonly string[]
  /** Whether the cluster has it: its Node object, or its own record. */
  readonly isMember: boolean
  readonly pools: readonly { readonly pool: string; readonly owned: number; readonly quarantined: number }[]
}

/** `cni-agent ipam ls` */
export const clusterList: Command = {
  summary: "Show the nodes of the cluster and the blocks that they own",
  words: [],
  flags: {
    cluster: { type: "boolean", help: "required: addresses of this node's containers are shown by cni ipam ls" },
    ...storeFlags,
  },
  help: `For each node and pool the number of blocks that it owns. A node that is "gone" has no Node object, or was released: its blocks are in
quarantine.

Examples:
  cni-agent ipam ls --cluster
  cni-agent ipam ls --cluster -o json`,
  async run(args, terminal) {
    if (!given(args, "cluster")) throw new UsageError("give --cluster; cni ipam ls shows the addresses of this node")
    const nodes = await withStore(args, terminal, readCluster)
    print(args, terminal, {
      json: () => nodes,
      text: (screen) => (nodes.length === 0 ? "The store knows no node\n" : clusterTable(nodes, screen)),
    })
  },
}

async function readCluster(store: Store): Promise<ClusterNode[]> {
  const [uses, members, records] = await Promise.all([readPoolUses(store), store.members(), store.list("node")])
  const owners = [
    ...members,
    ...records.map(({ value }) => value.owner),
    ...uses.flatMap(({ blocks }) => blocks.map(({ owner }) => owner)),
  ]
  const names = new Set(owners.map(({ name }) => name))
  return sortedByNames([...names], (name) => [name]).map((name) => {
    const pools = uses.flatMap(({ pool, nodes }) => {
      const own = nodes.find((each) => each.name === name)
      return own ? [{ pool: pool.name, owned: own.owned, quarantined: own.quarantined }] : []
    })
    const addresses = records.find(({ value }) => value.owner.name === name)?.value.addresses ?? []
    const uid = owners.find((owner) => owner.name === name)?.uid ?? ""
    return { node: name, uid, addresses, isMember: members.some((member) => member.name === name), pools }
  })
}

const columns = [
  { head: "NODE", isWhole: true },
  { head: "STATE", isWhole: true },
  { head: "POOL", isWhole: true },
  { head: "BLOCKS", isWhole: true },
  { head: "QUARANTINED", isWhole: true },
  { head: "ADDRESS", falls: 1 },
  { head: "UID", falls: 2 },
]

function clusterTable(nodes: readonly ClusterNode[], screen: Screen): string {
  const rows = nodes.flatMap(({ node, uid, addresses, isMember, pools }) => {
    const state = isMember ? "member" : { text: "gone", tone: "warning" as const }
    const none = { pool: "-", owned: 0, quarantined: 0 }
    return (pools.length === 0 ? [none] : pools).map(({ pool, owned, quarantined }) => {
      return [node, state, pool, String(owned), String(quarantined), addresses.join(",") || "-", uid]
    })
  })
  return fittedTable(columns, rows, screen)
}
