import type { AgentConfig, Block, StoreConfig } from "../../agent/mod.ts"
import { keyOf, type Pool } from "../../agent/mod.ts"
import { waitFor } from "../lab/mod.ts"
import { EtcdCluster } from "./etcd-cluster.ts"
import { ClusterNode, type ClusterPod, poolName, poolNetwork } from "./node.ts"

/** What a cluster is made with. */
export interface ClusterOptions {
  readonly nodes: number
  /** Members of etcd; default 3. */
  readonly members?: number
  readonly pool?: Partial<Pool>
  /** More keys of the agents' configurations. */
  readonly keys?: Partial<AgentConfig>
}

/** The pool of the laboratory: 64 blocks of 16 addresses. */
export const labPool: Pool = {
  name: poolName,
  prefixes: [{ prefix: "10.64.0.0/22", blockLength: 28, reserved: [] }],
  routes: [],
  network: poolNetwork,
  quarantineS: 3600,
  routing: "host-gw",
}

/** A whole cluster in namespaces: three members of etcd, and nodes with the built agent, on one link. */
export class Cluster implements AsyncDisposable {
  readonly etcd: EtcdCluster
  readonly nodes: ClusterNode[] = []
  readonly #keys: Partial<AgentConfig>

  private constructor(etcd: EtcdCluster, keys: Partial<AgentConfig>) {
    this.etcd = etcd
    this.#keys = keys
  }

  /** Starts members, registers the pool, and starts the nodes with their agents; each has a block when this returns. */
  static async start({ nodes, members = 3, pool, keys = {} }: ClusterOptions): Promise<Cluster> {
    await using stack = new AsyncDisposableStack()
    const etcd = stack.use(await EtcdCluster.start({ members }))
    const cluster = stack.use(new Cluster(etcd, keys))
    await cluster.registerPool({ ...labPool, ...pool })
    for (let number = 11; number < 11 + nodes; number++) (await cluster.addNode(number)).startAgent()
    for (const node of cluster.nodes) await node.waitForBlocks()
    stack.move()
    return cluster
  }

  /** Writes the registry with one pool, with etcd's own program. */
  async registerPool(pool: Pool): Promise<void> {
    await this.#writeRegistry({ [pool.name]: pool })
  }

  /** Takes all pools out of the registry, as if none had been registered yet. */
  async forgetPools(): Promise<void> {
    await this.#writeRegistry({})
  }

  async #writeRegistry(pools: Readonly<Record<string, Pool>>): Promise<void> {
    await this.etcd.etcdctl("put", `${keyPrefix}registry/${keyOf.registry()}`, JSON.stringify({ pools }))
  }

  /** Adds a node whose agent does not run yet. */
  async addNode(number: number, store: StoreConfig = this.etcd.storeConfig): Promise<ClusterNode> {
    const node = await ClusterNode.create({ lan: this.etcd.lan, store, number, keys: this.#keys })
    this.nodes.push(node)
    return node
  }

  /** Takes a node away; its records stay. */
  async removeNode(node: ClusterNode): Promise<void> {
    this.nodes.splice(this.nodes.indexOf(node), 1)
    await node[Symbol.asyncDispose]()
  }

  /** Takes a node away with its records: other nodes can have its blocks at once. */
  async eraseNode(node: ClusterNode): Promise<void> {
    await this.removeNode(node)
    const own = (await this.blockRecords()).filter(({ owner }) => owner.name === node.name)
    for (const { pool, prefix } of own) await this.etcd.etcdctl("del", `${keyPrefix}block/${pool}/${prefix}`)
    await this.etcd.etcdctl("del", `${keyPrefix}node/${node.name}`)
  }

  /** The records of blocks, read with etcd's own program. */
  async blockRecords(): Promise<Block[]> {
    const { stdout } = await this.etcd.etcdctl("get", "--prefix", `${keyPrefix}block/`, "-w", "json")
    const { kvs = [] } = JSON.parse(stdout) as { kvs?: { value: string }[] }
    return kvs.map(({ value }) => JSON.parse(Buffer.from(value, "base64").toString()) as Block)
  }

  /** Pods on several nodes, one after another. */
  async addPods(perNode: number): Promise<ClusterPod[]> {
    const added = await Promise.all(
      this.nodes.map(async (node) => {
        const pods: ClusterPod[] = []
        for (let count = 0; count < perNode; count++) pods.push(await node.addPod())
        return pods
      }),
    )
    return added.flat()
  }

  /**
   * Waits until all is in order: each block of a node's file has a record with this node as its owner, each record of a running node is in
   * the node's file, and no block is in two files.
   */
  async waitForOrder(): Promise<void> {
    let wrong: string[] = []
    await waitFor(async () => {
      wrong = await this.disorder()
      return wrong.length === 0
    }, "each block to be in its owner's file").catch((cause) => {
      throw new Error(`out of order: ${wrong.join("; ")}`, { cause })
    })
  }

  /** What is out of order now, in words. */
  async disorder(): Promise<string[]> {
    const running = this.nodes.filter(({ isRunning }) => isRunning)
    const records = await this.blockRecords()
    const files = new Map(await Promise.all(running.map(async (node) => [node.name, await node.blocks()] as const)))
    const wrong = [...files].flatMap(([name, blocks]) => foreignBlocks(name, blocks, records))
    for (const { prefix, owner, state } of records) {
      const isListed = files.get(owner.name)?.includes(prefix) ?? true
      if (!isListed && state !== "quarantined") wrong.push(`${owner.name} owns ${prefix}, and its file has not got it`)
    }
    return wrong
  }

  /** What a node's file has that the node does not own, in words. At no time is there any: also not where the agent was killed. */
  async foreign(node: ClusterNode): Promise<string[]> {
    return foreignBlocks(node.name, await node.blocks(), await this.blockRecords())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.nodes.map((node) => node[Symbol.asyncDispose]()))
    await this.etcd[Symbol.asyncDispose]()
  }
}

function foreignBlocks(name: string, blocks: readonly string[], records: readonly Block[]): string[] {
  return blocks.flatMap((block) => {
    const owner = records.find(({ prefix }) => prefix === block)?.owner.name
    return owner === name ? [] : [`${name} has ${block} in its file, owned by ${owner ?? "no node"}`]
  })
}

/** What all keys of the agents begin with. */
const keyPrefix = "/cni/"
