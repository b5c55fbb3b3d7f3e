import {
  Blocks,
  type FixedAddress,
  keyOf,
  listPools,
  type Owner,
  type Pool,
  type Store,
  type Stored,
} from "../../../agent/mod.ts"
import { randomHex } from "../../../pkg/libc/mod.ts"
import { CniError, Code, contains, normalIp, parseCidr, parseIp } from "../../../pkg/types/mod.ts"
import { type Command, given, print, text, UsageError, word } from "../../../tools/command.ts"
import { fittedTable } from "../../../tools/screen.ts"
import { sortedByNames } from "../../../tools/tables.ts"
import { storeFlags, withStore } from "./store.ts"

const interfaceFlag = {
  ifname: { type: "string", short: "i", value: "NAME", help: "the interface in the pod (default eth0)" },
} as const

/** `cni-agent ipam fixed set` */
export const fixedSet: Command = {
  summary: "Give a pod fixed addresses, which it has on any node",
  words: ["POD", "ADDRESS…"],
  flags: {
    ...interfaceFlag,
    node: {
      type: "string",
      value: "NODE",
      help: "the node of the pod, for stores without pods (etcd, a directory)",
    },
    ...storeFlags,
  },
  help: `The addresses belong to one pool with a gateway, and lie in its reserved prefixes, where there are no blocks. POD is NAMESPACE/NAME.
The agent of the pod's node writes them to the pool's file before the pod is attached.

Examples:
  cni-agent ipam fixed set db/mysql-0 192.0.2.5
  cni-agent ipam fixed set db/mysql-0 192.0.2.5 2001:db8::5 --node node-3`,
  async run(args, terminal) {
    const [pod, ...addresses] = args.words
    const named = podOf(pod ?? "")
    const record = await withStore(args, terminal, async (store) => {
      const pool = poolOf(await listPools(store), addresses)
      const node = text(args, "node")
      const holder = node === undefined ? undefined : await ownerOf(store, node)
      const canonical = addresses.map((address) => normalIp(address) ?? address)
      const ifName = text(args, "ifname") ?? "eth0"
      const wanted = {
        pool: pool.name,
        ...named,
        ifName,
        addresses: canonical,
        ...(holder && { holder }),
        nonce: randomHex(16),
      }
      await requireFree(store, wanted)
      return await put(store, wanted)
    })
    print(args, terminal, {
      json: () => record,
      text: () => `Pod ${record.namespace}/${record.pod} keeps ${record.addresses.join(", ")} on ${record.ifName}\n`,
    })
  },
}

/** `cni-agent ipam fixed ls` */
export const fixedList: Command = {
  summary: "Show the pods with fixed addresses, and the nodes that have these now",
  words: [],
  flags: storeFlags,
  help: `Examples:
  cni-agent ipam fixed ls`,
  async run(args, terminal) {
    const found = await withStore(args, terminal, (store) => store.list("fixed"))
    const records = sortedByNames(found, ({ key }) => [key]).map(({ value }) => value)
    const rows = records.map(({ namespace, pod, ifName, addresses, pool, holder }) => {
      return [`${namespace}/${pod}`, ifName, addresses.join(","), pool, holder?.name ?? "-"]
    })
    print(args, terminal, {
      json: () => records,
      text: (screen) => fittedTable(columns, rows, screen) || "No pod keeps its addresses\n",
    })
  },
}

const columns = ["POD", "INTERFACE", "ADDRESS", "POOL", "NODE"].map((head) => ({ head, isWhole: true }))

/** `cni-agent ipam fixed rm` */
export const fixedRemove: Command = {
  summary: "Remove the fixed addresses of a pod",
  words: ["POD"],
  flags: {
    ...interfaceFlag,
    now: { type: "boolean", help: "also while a node has the addresses: only when no container uses them" },
    ...storeFlags,
  },
  help: `Fails while a node has the addresses, because a container may use them.

Examples:
  cni-agent ipam fixed rm db/mysql-0`,
  async run(args, terminal) {
    const ifName = text(args, "ifname") ?? "eth0"
    const key = keyOf.fixed({ ...podOf(word(args, 0)), ifName })
    await withStore(args, terminal, async (store) => {
      const found = await store.find("fixed", key)
      if (!found) throw refuse("remove", key, "there is no such fixed address")
      const { holder } = found.value
      if (holder && !given(args, "now"))
        throw refuse(
          "remove",
          key,
          `node "${holder.name}" has ${found.value.addresses.join(", ")}: remove the pod first`,
        )
      if (!(await store.remove(found))) throw refuse("remove", key, "it was changed at the same time")
    })
    print(args, terminal, { json: () => ({ removed: key }), text: () => `Removed ${key}\n` })
  },
}

function podOf(written: string): { namespace: string; pod: string } {
  const [namespace = "", pod = "", ...more] = written.split("/")
  if (namespace === "" || pod === "" || more.length > 0)
    throw new UsageError(`cannot use ${written}: expected NAMESPACE/NAME of a pod, like db/mysql-0`)
  return { namespace, pod }
}

/** The pool of the addresses. Throws where a block may have one of them. */
function poolOf(pools: readonly Pool[], addresses: readonly string[]): Pool {
  const found = addresses.map((address) => {
    const ip = parseIp(address)
    if (!ip) throw new UsageError(`cannot use ${address}: expected an IP address`)
    const isIn = (prefix: string) => {
      const cidr = parseCidr(prefix)
      return cidr !== undefined && cidr.ip.length === ip.length && contains(cidr, ip)
    }
    for (const pool of pools) {
      const prefix = pool.prefixes.find((each) => isIn(each.prefix))
      if (!prefix) continue
      if (prefix.gateway === undefined)
        throw refuse("fix", address, `pool "${pool.name}" has no gateway for all nodes, so an address is one node's`)
      if (!prefix.reserved.some((each) => isIn(each.includes("/") ? each : `${each}/${ip.length * 8}`)))
        throw refuse(
          "fix",
          address,
          `pool "${pool.name}" does not reserve it, and block ${Blocks.of(prefix).blockOf(address) ?? ""} may be a node's`,
        )
      return pool
    }
    throw refuse("fix", address, "no pool has it")
  })
  const [pool] = found
  if (!pool) throw new UsageError("give at least one address")
  if (found.some(({ name }) => name !== pool.name)) throw new UsageError("the addresses are of several pools")
  return pool
}

async function ownerOf(store: Store, node: string): Promise<Owner> {
  const found = await store.find("node", node)
  if (found) return found.value.owner
  throw new CniError(Code.InvalidNetworkConfig, `Cannot find node "${node}": its agent has not registered it`)
}

/** Throws where another pod keeps one of the addresses. */
async function requireFree(store: Store, { namespace, pod, ifName, addresses }: FixedAddress): Promise<void> {
  const own = keyOf.fixed({ namespace, pod, ifName })
  for (const { key, value } of await store.list("fixed")) {
    const both = key === own ? undefined : value.addresses.find((address) => addresses.includes(address))
    if (both !== undefined) throw refuse("fix", both, `pod ${value.namespace}/${value.pod} keeps it`)
  }
}

/** Creates the record, or replaces one that no node holds. Another record with one of the addresses that was made at the same time wins. */
async function put(store: Store, wanted: FixedAddress): Promise<FixedAddress> {
  const key = keyOf.fixed(wanted)
  const known = await store.find("fixed", key)
  const made = known ? await replace(store, known, wanted) : await store.create("fixed", key, wanted)
  if (!made) throw refuse("fix", key, "it was changed at the same time: look, and try again")
  try {
    await requireFree(store, wanted)
  } catch (error) {
    await store.remove(made)
    throw error
  }
  return wanted
}

function replace(store: Store, known: Stored<"fixed">, wanted: FixedAddress): Promise<Stored<"fixed"> | undefined> {
  const { holder, addresses } = known.value
  if (holder && holder.name !== wanted.holder?.name)
    throw refuse("fix", known.key, `node "${holder.name}" has ${addresses.join(", ")}: remove the pod there first`)
  return store.replace(known, wanted)
}

function refuse(verb: string, what: string, reason: string): CniError {
  return new CniError(Code.InvalidNetworkConfig, `Cannot ${verb} "${what}": ${reason}`)
}
