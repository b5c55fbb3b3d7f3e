import { readFile } from "node:fs/promises"
import type { AgentConfig, StoreConfig } from "../../agent/mod.ts"
import {
  Attachment,
  type ContainerNamespace,
  HostNamespace,
  type Namespace,
  namespacePids,
  newest,
  type Output,
  type PluginOutput,
  waitFor,
} from "../lab/mod.ts"
import { AgentProcess, agentProgram } from "./agent-process.ts"
import { containerLabel } from "./referee.ts"

/** The pool of the laboratory, and the network whose containers get its addresses. */
export const poolName = "pods"
const networkName = "pods-net"

/** Where a node has the agent's files; each node sees directories of its own there. */
export const paths = {
  config: "/run/cni/agent.json",
  socket: "/run/cni/agent.sock",
  pools: "/var/lib/cni/pools",
  networks: "/var/lib/cni/networks",
} as const

/** A pool file, as far as tests look at it. */
export interface ListedPool {
  readonly node: { readonly name: string; readonly uid: string; readonly machineId: string }
  readonly sets: readonly {
    readonly prefix: string
    readonly blocks: readonly string[]
    readonly draining: readonly string[]
  }[]
  readonly fixed: Readonly<Record<string, readonly string[]>>
}

/** How a container is attached: by default to `podNetwork`, without `CNI_ARGS`. */
export interface PodOptions {
  readonly network?: Record<string, unknown>
  readonly args?: string
}

/** A container with its attachment. */
export interface ClusterPod {
  readonly namespace: ContainerNamespace
  readonly attachment: Attachment
  /** The first address, without prefix length. */
  readonly address: string
  readonly addresses: readonly string[]
}

/** What a node is made with. */
export interface NodeOptions {
  readonly lan: HostNamespace
  readonly store: StoreConfig
  /** The last byte of its address, and part of its name: 11 is node-11, 10.99.0.11. */
  readonly number: number
  readonly network?: string
  /** More keys of the agent's configuration. */
  readonly keys?: Partial<AgentConfig>
}

/** One node of a cluster: a host of its own on the link, with the built agent, a bridge, host-local and containers. */
export class ClusterNode implements AsyncDisposable {
  readonly host: HostNamespace
  readonly name: string
  readonly address: string
  /** The port of the link that it is plugged in to. */
  readonly port: string
  /** All that the agent's processes have written. */
  readonly log: string[] = []
  #agent: AgentProcess | undefined

  private constructor(host: HostNamespace, name: string, address: string, port: string) {
    this.host = host
    this.name = name
    this.address = address
    this.port = port
  }

  /** Makes a node whose agent does not run yet. */
  static async create({ lan, store, number, network = "10.99.0", keys }: NodeOptions): Promise<ClusterNode> {
    const name = `node-${number}`
    const host = await HostNamespace.create(name)
    try {
      await giveMachineId(host, number)
      const address = `${network}.${number}`
      const port = await plugIn(lan, host, `p${number}`, `${address}/24`)
      await host.exec("sysctl", ["-qw", "net.ipv4.ip_forward=1"])
      const config: AgentConfig = {
        store,
        node: name,
        poolDir: paths.pools,
        dataDir: paths.networks,
        socket: paths.socket,
        http: "127.0.0.1:9817",
        log: "text",
        nodeAddresses: [address],
        ...keys,
      }
      await Bun.write(host.file(paths.config), JSON.stringify(config))
      return new ClusterNode(host, name, address, port)
    } catch (error) {
      await host[Symbol.asyncDispose]()
      throw error
    }
  }

  /** The process id of the agent. */
  get agentPid(): number {
    if (!this.#agent) throw new Error(`no agent runs on ${this.name}`)
    return this.#agent.pid
  }

  get isRunning(): boolean {
    return this.#agent?.isRunning ?? false
  }

  /** Starts the agent, under another program if one is given. */
  startAgent(under: readonly string[] = []): void {
    this.#agent = new AgentProcess(this.host, { config: paths.config, log: this.log, under })
  }

  /** Sends the agent's process a signal. */
  signal(signal: NodeJS.Signals): void {
    this.#agent?.signal(signal)
  }

  /** Ends the agent, and waits for it. */
  async endAgent(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    if (signal === "SIGKILL" || signal === "SIGTERM") this.signal("SIGCONT")
    this.signal(signal)
    await this.#agent?.ended()
  }

  /** Ends an agent that runs under another program, which may leave it alone. */
  async endAgentUnder(): Promise<void> {
    for (const pid of await namespacePids(this.host.name)) {
      const name = await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "")
      if (name.trim() === "cni-agent") process.kill(pid, "SIGKILL")
    }
    await this.#agent?.ended()
  }

  /** Reads the file of a pool; `undefined` if it does not exist. */
  async poolFile(pool = poolName): Promise<ListedPool | undefined> {
    const file = Bun.file(this.host.file(`${paths.pools}/${pool}.json`))
    return (await file.exists()) ? ((await file.json()) as ListedPool) : undefined
  }

  /** The blocks of the pool's file, those that it gives back included. */
  async blocks(pool = poolName): Promise<string[]> {
    const file = await this.poolFile(pool)
    return (file?.sets ?? []).flatMap(({ blocks, draining }) => [...blocks, ...draining])
  }

  /** Waits until the node has at least so many blocks. */
  async waitForBlocks(count = 1, pool = poolName): Promise<string[]> {
    return waitFor(
      async () => {
        const blocks = await this.blocks(pool)
        return blocks.length >= count ? blocks : undefined
      },
      `${count} blocks of pool "${pool}" of ${this.name}; its agent says:\n${this.log.join("").slice(-2000)}`,
    )
  }

  /** What `cni-agent` answers to a command on this node. */
  ask(...args: readonly string[]): Promise<Output> {
    return this.host.tryExec(agentProgram, [...args])
  }

  /** Has this node's `cni-agent` put the blocks of another node in quarantine. Throws where it refuses. */
  async releaseNode(name: string): Promise<void> {
    await this.host.exec(agentProgram, ["ipam", "release-node", name, "--config", paths.config])
  }

  /** ADD for a container that does not exist yet. Throws where it fails. */
  async addPod(options: PodOptions = {}): Promise<ClusterPod> {
    const { namespace, attachment, output } = await this.tryPod(options)
    const { ips = [] } = (output.json ?? {}) as { ips?: { address: string }[] }
    const addresses = ips.map(({ address }) => address.replace(/\/.*/, ""))
    const [address] = addresses
    if (address === undefined) throw new Error(`ADD on ${this.name}: ${output.stdout}${output.stderr}`)
    return { namespace, attachment, address, addresses }
  }

  /** ADD for a container that does not exist yet, with any end. */
  async tryPod({
    network = podNetwork,
    args,
  }: PodOptions = {}): Promise<{ namespace: ContainerNamespace; attachment: Attachment; output: PluginOutput }> {
    const namespace = await this.host.addContainer(`${this.name}${containerLabel}`)
    const attachment = new Attachment(this.host, namespace, network, args === undefined ? {} : { args })
    return { namespace, attachment, output: await attachment.run("ADD") }
  }

  /** DEL, and the container is gone. */
  async deletePod({ attachment, namespace }: Pick<ClusterPod, "attachment" | "namespace">): Promise<void> {
    await attachment.del()
    await this.host.removeContainer(namespace)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.endAgent()
    await this.host[Symbol.asyncDispose]()
  }
}

/** The network of the containers: each node's bridge is the gateway of the blocks that the node owns. */
export const podNetwork = {
  cniVersion: newest,
  name: networkName,
  type: "bridge",
  bridge: "cni0",
  isDefaultGateway: true,
  ipam: { type: "host-local", pool: poolName },
} as const

/** The pool, as `cni-agent ipam pool create` takes it. */
export const poolNetwork = networkName

/** Gives a node a machine id of its own. */
async function giveMachineId(host: HostNamespace, number: number): Promise<void> {
  const id = number.toString(16).padStart(32, "0")
  const script = `mount -t tmpfs -o mode=755 cni-test /mnt; cp -a /etc/. /mnt; echo ${id} > /mnt/machine-id; mount --move /mnt /etc`
  await host.exec("sh", ["-ec", script])
}

/** Plugs a machine in to the bridge `lan`, as `eth0`. Returns the name of its port there. */
export async function plugIn(lan: Namespace, machine: Namespace, port: string, address: string): Promise<string> {
  await lan.exec("ip", ["link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", machine.name])
  await lan.exec("ip", ["link", "set", port, "up", "master", "lan"])
  await machine.exec("ip", ["address", "add", address, "dev", "eth0"])
  await machine.exec("ip", ["link", "set", "eth0", "up"])
  return port
}
