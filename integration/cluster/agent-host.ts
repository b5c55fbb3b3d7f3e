import type { Pool } from "../../agent/mod.ts"
import {
  Attachment,
  type ContainerNamespace,
  HostNamespace,
  newest,
  type PluginResult,
  runProgram,
  waitFor,
} from "../lab/mod.ts"
import { AgentProcess, agentProgram } from "./agent-process.ts"

/** The pool of these tests: IPv4 and IPv6, with routes to the other nodes. */
export const pods: Pool = {
  name: "pods",
  network: "pods",
  prefixes: [
    { prefix: "10.64.0.0/16", blockLength: 26, reserved: [] },
    { prefix: "fd00:64::/48", blockLength: 80, reserved: [] },
  ],
  routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
  quarantineS: 3600,
  routing: "host-gw",
}

/** A route as `ip -j route` shows it. */
export interface ShownRoute {
  readonly dst: string
  readonly gateway?: string
  readonly protocol?: string
}

/** A host on a link with others, and the built agent on it. Its addresses are 192.0.2.N and 2001:db8::N. */
export class AgentHost implements AsyncDisposable {
  readonly host: HostNamespace
  readonly name: string
  readonly number: number
  #agent: AgentProcess | undefined
  readonly #log: string[] = []

  private constructor(host: HostNamespace, number: number) {
    this.host = host
    this.number = number
    this.name = `node-${number}`
  }

  /** Makes a host on the bridge "lan" of another namespace, and the configuration of its agent; the store is a directory. */
  static async create(lan: HostNamespace, number: number, store: string, keys: object = {}): Promise<AgentHost> {
    const host = await HostNamespace.create(`node${number}`)
    const port = `p${number}`
    await host.exec("ip", ["link", "add", "uplink", "type", "veth", "peer", "name", port, "netns", lan.name])
    await lan.exec("ip", ["link", "set", port, "master", "lan", "up"])
    await host.exec("ip", ["address", "add", `192.0.2.${number}/24`, "dev", "uplink"])
    await host.exec("ip", ["address", "add", `2001:db8::${number}/64`, "dev", "uplink", "nodad"])
    await host.exec("ip", ["link", "set", "uplink", "up"])
    await host.exec("ip", ["route", "add", "default", "via", "192.0.2.254"])
    await host.exec("ip", ["-6", "route", "add", "default", "via", "2001:db8::fe"])
    const agent = new AgentHost(host, number)
    await agent.configure({ store: { type: "directory", path: store }, ...keys })
    return agent
  }

  /** Writes the agent's configuration; `keys` are all but the node's name and its socket. */
  async configure(keys: object): Promise<void> {
    const config = { node: this.name, socket: "/run/cni/agent.sock", ...keys }
    await Bun.write(this.host.file("/run/cni/agent.json"), JSON.stringify(config))
  }

  /** Starts the agent; ends when it is ready and has a block of each prefix: the first file of a node names none. */
  async start(): Promise<void> {
    this.#agent = new AgentProcess(this.host, { config: "/run/cni/agent.json", log: this.#log })
    await waitFor(async () => (await this.ask("/readyz")).startsWith("ok"), `the agent of ${this.name} to be ready`)
    const hasAll = async () => (await this.#sets()).every(({ blocks }) => blocks.length > 0)
    await waitFor(hasAll, `a block of each prefix for ${this.name}`)
  }

  /** All that the agents of this host have logged. */
  get log(): string {
    return this.#log.join("")
  }

  get pid(): number {
    return this.#agent?.pid ?? 0
  }

  /** Sends the agent a signal; returns how it ended, if it is one that ends it. */
  async signal(name: "SIGTERM" | "SIGKILL" | "SIGHUP"): Promise<number | undefined> {
    this.#agent?.signal(name)
    return name === "SIGHUP" ? undefined : this.#agent?.ended()
  }

  /** Runs the built agent with other words, to its end. */
  run(...words: string[]) {
    return runProgram(this.host.commandLine([agentProgram, ...words]))
  }

  /** The answer on the agent's socket. */
  async ask(path: string): Promise<string> {
    const answer = await fetch(`http://agent${path}`, { unix: this.host.file("/run/cni/agent.sock") })
    return answer.text()
  }

  /** The answer of HTTP on the host's loopback, and its status. */
  async http(path: string): Promise<{ readonly status: number; readonly text: string }> {
    const asks = `const answer = await fetch("http://127.0.0.1:9817${path}")
      console.log(JSON.stringify({ status: answer.status, text: await answer.text() }))`
    return this.host.json(process.execPath, ["-e", asks])
  }

  /** The routes of the agent, "10.64.3.0/26 via 192.0.2.3", in order. */
  async routes(): Promise<string[]> {
    const found = await Promise.all(
      ["-4", "-6"].map((family) => this.host.json<ShownRoute[]>("ip", [family, "-j", "route", "show", "proto", "73"])),
    )
    return found
      .flat()
      .map(({ dst, gateway }) => `${dst} via ${gateway}`)
      .sort()
  }

  /** The blocks that the pool's file of this host names. */
  async blocks(): Promise<string[]> {
    return (await this.#sets()).flatMap(({ blocks }) => blocks)
  }

  /** The file of the pool by its prefixes. */
  async #sets(): Promise<readonly { readonly blocks: readonly string[] }[]> {
    return (await Bun.file(this.host.file("/var/lib/cni/pools/pods.json")).json()).sets
  }

  /** The routes that others have to have to the blocks of this host. */
  async routesHere(number = this.number): Promise<string[]> {
    const blocks = await this.blocks()
    return blocks.map((block) => `${block} via ${block.includes(":") ? `2001:db8::${number}` : `192.0.2.${number}`}`)
  }

  /** A container with addresses of the pool, by `bridge` or `ptp`. */
  async addPod(
    type: "bridge" | "ptp",
  ): Promise<{ namespace: ContainerNamespace; addresses: string[]; result: PluginResult }> {
    const keys = type === "bridge" ? { bridge: "cni0", isGateway: true } : {}
    const config = { cniVersion: newest, name: "pods", type, ...keys, ipam: { type: "host-local", pool: "pods" } }
    const namespace = await this.host.addContainer()
    const result = await new Attachment(this.host, namespace, config).add()
    return { namespace, addresses: result.ips.map(({ address }) => address.replace(/\/.*/, "")), result }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.signal("SIGKILL")
    await this.host[Symbol.asyncDispose]()
  }
}

/** A link that hosts are on: a namespace with a bridge. */
export async function makeLan(): Promise<HostNamespace> {
  const lan = await HostNamespace.create("lan")
  await lan.exec("ip", ["link", "add", "lan", "type", "bridge"])
  await lan.exec("ip", ["link", "set", "lan", "up"])
  return lan
}
