import { join } from "node:path"
import type { Status } from "../../../agent/mod.ts"
import { nodeObject } from "../../../agent/testing/fake-api.ts"
import {
  Attachment,
  builtPlugins,
  type ContainerNamespace,
  HostNamespace,
  newest,
  type Output,
  type PluginOutput,
  programEnv,
  waitFor,
} from "../../lab/mod.ts"
import { agentToken, type ClusterApi } from "./api.ts"

/** The path of the built agent. */
export const agentProgram = join(builtPlugins, "../cni-agent")
/** The address of the API server in the network of the nodes. */
const SERVER = "10.99.0.254"
/** The directory with a kubeconfig in each node, and the files that it names. */
const ACCOUNT = "/run/cni/account"
const NODES = "/api/v1/nodes"

/** The network of the pods, the only one that the agent of a node serves. */
export const podsNetwork = networkOf("pods")
export function networkOf(name: string) {
  return {
    cniVersion: newest,
    name,
    type: "bridge",
    bridge: "cni0",
    isDefaultGateway: true,
    ipam: { type: "host-local", rangesFile: `/run/cni/ranges/${name}.json` },
  }
}

/** A container with its attachment. */
export interface Pod {
  readonly namespace: ContainerNamespace
  readonly attachment: Attachment
  readonly addresses: readonly string[]
}

/** Returns the ranges of the node with number N: 10.244.N.0/24 and fd00:10:244:N::/64. */
export const rangesOf = (number: number) => [`10.244.${number}.0/24`, `fd00:10:244:${number}::/64`]

/** A network with an API server and nodes. Each node is a host in its own namespace. */
export class Cluster implements AsyncDisposable {
  readonly api: ClusterApi
  readonly lan: HostNamespace
  readonly #owned: AsyncDisposableStack

  private constructor(api: ClusterApi, lan: HostNamespace, owned: AsyncDisposableStack) {
    this.api = api
    this.lan = lan
    this.#owned = owned
  }

  static async start(startApi: (lan: HostNamespace, address: string) => Promise<ClusterApi>): Promise<Cluster> {
    await using stack = new AsyncDisposableStack()
    const lan = stack.use(await HostNamespace.create("lan"))
    await lan.exec("sh", [
      "-ec",
      `ip link set lo up; ip link add lan type bridge; ip address add ${SERVER}/24 dev lan; ip link set lan up`,
    ])
    const api = stack.use(await startApi(lan, SERVER))
    return new Cluster(api, lan, stack.move())
  }

  /** Creates a node without a running agent. `name` is the name of its Node object. */
  async addNode(number: number, name = `node-${number}`): Promise<ClusterNode> {
    return this.#owned.use(await ClusterNode.create(this, number, name))
  }

  /** Creates a Node object, as kubelet and the controller of ranges do. Throws if the API server refuses the object. */
  async makeNode(node: Pick<ClusterNode, "name" | "addresses">, ranges: readonly string[]): Promise<void> {
    const { status, body } = await this.api.ask("POST", NODES, nodeObject(node.name, ranges, node.addresses))
    if (status !== 201) throw new Error(`Cannot make Node ${node.name}: ${status} ${JSON.stringify(body)}`)
  }

  async deleteNode(name: string): Promise<void> {
    await this.api.ask("DELETE", `${NODES}/${name}`)
  }

  /** Writes the boot ID to a Node object, as kubelet does. */
  async registerBoot(name: string, bootID: string): Promise<void> {
    const { body } = await this.api.ask("GET", `${NODES}/${name}`)
    const status = { ...body.status, nodeInfo: { ...body.status.nodeInfo, bootID } }
    const answer = await this.api.ask("PUT", `${NODES}/${name}/status`, { ...body, status })
    if (answer.status !== 200) throw new Error(`Cannot change Node ${name}: ${JSON.stringify(answer.body)}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync()
  }
}

/** A node with a bridge network, and with the agent once a test has started it. */
export class ClusterNode implements AsyncDisposable {
  readonly host: HostNamespace
  readonly name: string
  readonly addresses: readonly string[]
  #log = ""
  #agent: Bun.Subprocess<"ignore", "ignore", "pipe"> | undefined
  #drained: Promise<void> | undefined

  private constructor(host: HostNamespace, name: string, addresses: readonly string[]) {
    this.host = host
    this.name = name
    this.addresses = addresses
  }

  static async create({ lan, api }: Cluster, number: number, name: string): Promise<ClusterNode> {
    const host = await HostNamespace.create(`node-${number}`)
    const [v4, v6] = [`10.99.0.${number}`, `fd99::${number}`]
    const port = `p${number}`
    await lan.exec("ip", ["link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host.name])
    await lan.exec("ip", ["link", "set", port, "up", "master", "lan"])
    const commands = `ip address add ${v4}/24 dev eth0; ip address add ${v6}/64 dev eth0 nodad; ip link set lo up; ip link set eth0 up`
    await host.exec("sh", ["-ec", commands])
    const config = {
      "current-context": "node",
      contexts: [{ name: "node", context: { cluster: "lab", user: "agent" } }],
      clusters: [{ name: "lab", cluster: { server: api.url, ...(api.ca && { "certificate-authority": "ca.crt" }) } }],
      users: [{ name: "agent", user: { tokenFile: "token" } }],
    }
    await Bun.write(host.file(`${ACCOUNT}/kubeconfig`), Bun.YAML.stringify(config))
    await Bun.write(host.file(`${ACCOUNT}/token`), agentToken)
    if (api.ca) await Bun.write(host.file(`${ACCOUNT}/ca.crt`), api.ca)
    return new ClusterNode(host, name, [v4, v6])
  }

  /** The output of all agents that ran on this node. */
  get log(): string {
    return this.#log
  }

  get tokenFile(): string {
    return this.host.file(`${ACCOUNT}/token`)
  }

  /** Starts the agent for a network, and returns its process ID. */
  startAgent(network = "pods"): number {
    const flags = ["--network", network, "--node", this.name, "--kubeconfig", `${ACCOUNT}/kubeconfig`]
    const agent = Bun.spawn(this.host.commandLine([agentProgram, "run", ...flags]), {
      env: { ...programEnv },
      stdio: ["ignore", "ignore", "pipe"],
    })
    this.#agent = agent
    this.#drained = (async () => {
      const decoder = new TextDecoder()
      for await (const bytes of agent.stderr) this.#log += decoder.decode(bytes, { stream: true })
    })()
    return agent.pid
  }

  async endAgent(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    this.#agent?.kill(signal)
    await this.#agent?.exited
    await this.#drained
    this.#agent = undefined
  }

  /** Waits until the agent has written these ranges to the file of a network. */
  async waitForRanges(ranges: readonly string[], network = "pods"): Promise<void> {
    await waitFor(
      async () => Bun.deepEquals((await this.rangesFile(network))?.ranges, ranges),
      `ranges ${ranges} of ${this.name}; its agent says:\n${this.#log.slice(-2000)}`,
    )
  }

  async rangesFile(network = "pods"): Promise<{ ranges: string[]; former: string[] } | undefined> {
    const file = Bun.file(this.host.file(`/run/cni/ranges/${network}.json`))
    return (await file.exists()) ? await file.json() : undefined
  }

  /** Returns the agent's routes in order, as "PREFIX via GATEWAY" or "unreachable PREFIX". */
  async routes(): Promise<string[]> {
    const found = await Promise.all(
      ["-4", "-6"].map(async (family) => {
        const { stdout } = await this.host.exec("ip", ["-j", family, "route", "show", "proto", "73"])
        return JSON.parse(stdout || "[]") as { type?: string; dst: string; gateway?: string }[]
      }),
    )
    const text = ({ type, dst, gateway }: { type?: string; dst: string; gateway?: string }) =>
      gateway === undefined ? `${type ?? "?"} ${dst}` : `${dst} via ${gateway}`
    return found.flat().map(text).sort()
  }

  /** Returns the addresses of the bridge, except link-local ones. */
  async bridgeAddresses(): Promise<string[]> {
    const { stdout } = await this.host.exec("ip", ["-j", "address", "show", "dev", "cni0", "scope", "global"])
    const [link] = JSON.parse(stdout) as { addr_info: { local?: string; prefixlen: number }[] }[]
    return (link?.addr_info ?? []).flatMap(({ local, prefixlen }) => (local ? [`${local}/${prefixlen}`] : []))
  }

  async status(): Promise<Status> {
    return JSON.parse((await this.host.exec(agentProgram, ["status", "-o", "json"])).stdout)
  }

  /** Runs `cni-agent` with these arguments on this node. */
  ask(...words: readonly string[]): Promise<Output> {
    return this.host.tryExec(agentProgram, [...words])
  }

  /** Creates a container and runs ADD for the container. Throws if ADD fails. */
  async addPod(network: Record<string, unknown> = podsNetwork): Promise<Pod> {
    const { namespace, attachment, output } = await this.tryPod(network)
    const { ips = [] } = (output.json ?? {}) as { ips?: { address: string }[] }
    const addresses = ips.map(({ address }) => address.replace(/\/.*/, ""))
    if (addresses.length === 0) throw new Error(`ADD on ${this.name}: ${output.stdout}${output.stderr}`)
    return { namespace, attachment, addresses }
  }

  /** Creates a container and runs ADD for the container. Returns the output even if ADD fails. */
  async tryPod(
    network: Record<string, unknown> = podsNetwork,
  ): Promise<{ namespace: ContainerNamespace; attachment: Attachment; output: PluginOutput }> {
    const namespace = await this.host.addContainer(`${this.name}pod`)
    const attachment = new Attachment(this.host, namespace, network)
    return { namespace, attachment, output: await attachment.run("ADD") }
  }

  /** Runs DEL and removes the container. */
  async deletePod({ attachment, namespace }: Pick<Pod, "attachment" | "namespace">): Promise<void> {
    await attachment.del()
    await this.host.removeContainer(namespace)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.endAgent("SIGKILL")
    await this.host[Symbol.asyncDispose]()
  }
}
