import { mkdir, readdir, readFile } from "node:fs/promises"
import { type AgentConfig, keyOf, type Pool, type Status } from "../agent/mod.ts"
import { AgentProcess, EtcdCluster } from "../integration/cluster/mod.ts"
import { TemporaryDirectory, waitFor } from "../integration/lab/mod.ts"

/** How long nodes may take for what they do by themselves, before the benchmark ends. */
const limitMs = 60_000

/** A node of a cluster that is a directory: the built agent with its pool files, and host-local's stores. */
export class AgentNode implements AsyncDisposable {
  readonly name: string
  readonly directory: string
  readonly #pool: Pool
  readonly #agent: AgentProcess
  readonly #log: string[] = []

  private constructor(etcd: EtcdCluster, name: string, directory: string, pool: Pool) {
    this.name = name
    this.directory = directory
    this.#pool = pool
    this.#agent = new AgentProcess(etcd.lan, { config: `${directory}/agent.json`, log: this.#log })
  }

  /** Starts the agent of a node beside the members of a store. It has a block when this returns. */
  static async start(etcd: EtcdCluster, name: string, directory: string, pool: Pool): Promise<AgentNode> {
    await mkdir(`${directory}/pools`, { recursive: true, mode: 0o755 })
    await mkdir(`${directory}/networks`, { mode: 0o755 })
    const config: AgentConfig = {
      store: etcd.storeConfig,
      node: name,
      poolDir: `${directory}/pools`,
      dataDir: `${directory}/networks`,
      socket: `${directory}/agent.sock`,
      http: "",
      log: "text",
    }
    await Bun.write(`${directory}/agent.json`, JSON.stringify(config))
    return new AgentNode(etcd, name, directory, pool)
  }

  get pid(): number {
    return this.#agent.pid
  }

  /** What a network says of its addresses, that come from this node's blocks. */
  get ipam(): object {
    const { directory } = this
    return {
      type: "host-local",
      pool: this.#pool.name,
      poolDir: `${directory}/pools`,
      dataDir: `${directory}/networks`,
    }
  }

  /** host-local's store of the pool's network. */
  get store(): string {
    return `${this.directory}/networks/${this.#pool.network}`
  }

  /** The blocks of the pool's file; none while there is no file. */
  async blocks(): Promise<string[]> {
    const file = Bun.file(`${this.directory}/pools/${this.#pool.name}.json`)
    if (!(await file.exists())) return []
    const { sets } = (await file.json()) as { sets: { blocks: string[]; draining: string[] }[] }
    return sets.flatMap(({ blocks, draining }) => [...blocks, ...draining])
  }

  /** What the agent tells of itself. */
  async status(): Promise<Status> {
    const answer = await fetch("http://agent/status", { unix: `${this.directory}/agent.sock` })
    return (await answer.json()) as Status
  }

  /** Waits until the node has at least, or at most, so many blocks. */
  async waitForBlocks(isEnough: (count: number) => boolean, what: string): Promise<void> {
    await waitFor(async () => isEnough((await this.blocks()).length), `${what} of ${this.name}`, limitMs).catch(
      (cause) => {
        throw new Error(`Its agent says: ${this.#log.join("").slice(-2000)}`, { cause })
      },
    )
  }

  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#agent.signal(signal)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#agent.signal("SIGKILL")
    await this.#agent.ended()
  }
}

/** A cluster whose nodes are directories on a disk of this machine, all in the namespace in which the store's clients are. */
export class AgentCluster implements AsyncDisposable {
  readonly etcd: EtcdCluster
  readonly nodes: readonly AgentNode[]
  readonly #kept: AsyncDisposableStack

  private constructor(etcd: EtcdCluster, nodes: readonly AgentNode[], kept: AsyncDisposableStack) {
    this.etcd = etcd
    this.nodes = nodes
    this.#kept = kept
  }

  static async start(pool: Pool, nodes: number, members: number): Promise<AgentCluster> {
    await using stack = new AsyncDisposableStack()
    const directory = stack.use(await TemporaryDirectory.create("cni-bench", "/var/tmp"))
    const etcd = stack.use(await EtcdCluster.start({ members }))
    const registry = { pools: { [pool.name]: pool } }
    await etcd.etcdctl("put", `/cni/registry/${keyOf.registry()}`, JSON.stringify(registry))
    const started: AgentNode[] = []
    for (let at = 0; at < nodes; at++) {
      const name = `node-${at}`
      started.push(stack.use(await AgentNode.start(etcd, name, directory.join(name), pool)))
    }
    for (const node of started) await node.waitForBlocks((count) => count > 0, "a block")
    return new AgentCluster(etcd, started, stack.move())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#kept.disposeAsync()
  }
}

/** What a process has used until now, by its threads. */
export interface Usage {
  readonly cpuNs: ReadonlyMap<string, number>
  /** How often a thread has begun to run after it had waited. */
  readonly wakeUps: ReadonlyMap<string, number>
  readonly residentMb: number
  readonly peakMb: number
}

export async function usageOf(pid: number): Promise<Usage> {
  const threads = await readdir(`/proc/${pid}/task`)
  const read = (file: string) => readFile(`/proc/${pid}/${file}`, "utf8")
  const perThread = async (value: (thread: string) => Promise<number>) =>
    new Map(await Promise.all(threads.map(async (thread) => [thread, await value(thread)] as const)))
  const line = (status: string, name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1])
  const status = await read("status")
  return {
    cpuNs: await perThread(async (thread) => Number((await read(`task/${thread}/schedstat`)).split(" ")[0])),
    wakeUps: await perThread(async (thread) => line(await read(`task/${thread}/status`), "voluntary_ctxt_switches")),
    residentMb: line(status, "VmRSS") / 1024,
    peakMb: line(status, "VmHWM") / 1024,
  }
}

/** By how much the threads' numbers have grown in all; those of threads that have ended are left out. */
export function growth(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): number {
  return [...after].reduce((sum, [thread, value]) => sum + value - (before.get(thread) ?? 0), 0)
}
