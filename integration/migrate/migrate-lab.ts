import { cp, readdir } from "node:fs/promises"
import { NodeLab } from "../cni/node-lab.ts"
import { containerdNetwork } from "../interop/networks.ts"
import {
  askEcho,
  type ContainerNamespace,
  connectOutside,
  EchoPeer,
  type HostNamespace,
  type Output,
  outside,
  type Snapshot,
  takeSnapshot,
  uplink,
} from "../lab/mod.ts"
import type { FlowMeter, Flows } from "../reconcile/listener-lab.ts"

/** The directory of Debian's Go plugins, package containernetworking-plugins. */
const goPlugins = "/usr/lib/cni"

/** A network like those of podman and kubelet, in the newest version that Debian's Go plugins support. */
export const network = {
  cniVersion: containerdNetwork.cniVersion,
  name: containerdNetwork.name,
  plugins: [...containerdNetwork.plugins, { type: "firewall" }],
}

/** The output of `cni migrate -o json`. */
export interface Report {
  readonly direction: "apply" | "back"
  readonly done: boolean
  readonly steps: readonly string[]
  readonly files: readonly { readonly name: string; readonly did: string }[]
  readonly pods: readonly {
    readonly attachment: string
    readonly madeBy: string
    readonly masquerade?: string
    readonly portsBy?: string
    readonly firewall?: string
    readonly bridge?: string
    readonly stores: readonly string[]
    readonly ports: readonly object[]
    readonly plugins: readonly string[]
    readonly after: string
    readonly closes?: string
  }[]
  readonly moved: readonly string[]
  readonly removed: readonly string[]
  readonly failed: readonly string[]
  readonly remains: readonly { readonly what: string; readonly of: readonly string[] }[]
}

export type Family = "ip" | "ip6"

/** A container with a published port. */
export interface Published {
  readonly pod: ContainerNamespace
  readonly hostPort: number
}

/** A node with the Go plugins, and an uplink to another machine. */
export class MigrateLab implements AsyncDisposable {
  readonly node: NodeLab
  readonly outside: ContainerNamespace
  readonly #peers: AsyncDisposable[] = []
  #port = 8000

  private constructor(node: NodeLab, other: ContainerNamespace) {
    this.node = node
    this.outside = other
  }

  /** Creates a node. `prepare` changes the host first. */
  static async create(
    config: object = network,
    prepare = async (_host: HostNamespace): Promise<unknown> => undefined,
  ): Promise<MigrateLab> {
    const node = await NodeLab.create(config)
    try {
      await prepare(node.host)
      node.binDir = node.directory.join("bin")
      await cp(goPlugins, node.binDir, { recursive: true })
      const lab = new MigrateLab(node, await connectOutside(node.host))
      lab.#peers.push(await EchoPeer.start(lab.outside, { port: 9000 }))
      return lab
    } catch (error) {
      await node[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Runs `cni migrate` with `flags`. The command `under`, if not empty, runs `cni migrate`. */
  migrate(flags: readonly string[], under: readonly string[] = []): Promise<Output> {
    const { binDir, confDir } = this.node
    return this.node.cni(["migrate", ...flags, "--bin-dir", binDir, "--conf-dir", confDir], {}, under)
  }

  async report(flags: readonly string[], exitCode = 0): Promise<Report> {
    const output = await this.migrate([...flags, "-o", "json"])
    if (output.exitCode !== exitCode) throw new Error(`exit code ${output.exitCode}: ${output.stdout}${output.stderr}`)
    return JSON.parse(output.stdout) as Report
  }

  async add(count: number, name = "pods"): Promise<Published[]> {
    const added: Published[] = []
    for (let at = 0; at < count; at++) {
      const hostPort = ++this.#port
      const pod = await this.node.host.addContainer()
      const mapped = { hostPort, containerPort: 80, protocol: "tcp" }
      await this.call("add", pod, JSON.stringify({ portMappings: [mapped] }), name)
      added.push({ pod, hostPort })
    }
    return added
  }

  /** Runs DEL of containers with the installed plugins, then deletes their namespaces. Throws if a DEL fails. */
  async remove(containers: readonly Published[], name = "pods"): Promise<void> {
    for (const { pod } of containers) {
      await this.call("del", pod, "{}", name)
      await this.node.host.removeContainer(pod)
    }
  }

  async call(
    verb: "add" | "check" | "del",
    { path }: ContainerNamespace,
    CAP_ARGS: string,
    name = "pods",
  ): Promise<void> {
    const { exitCode, stdout, stderr } = await this.node.cni([verb, name, path], { CAP_ARGS })
    if (exitCode !== 0) throw new Error(`${verb}: ${stdout}${stderr}`)
  }

  /**
   * Counts flows during `act`: from the first container to the other machine, and from that machine to the second
   * container's port.
   */
  async counting(
    meter: FlowMeter,
    [first, second]: readonly Published[],
    act: () => Promise<unknown>,
    families: readonly Family[] = ["ip"],
  ): Promise<Flows[]> {
    if (!first || !second) throw new Error("two containers are needed")
    await using _server = await EchoPeer.start(second.pod, { port: 80 })
    const flows: Flows[] = []
    let counted = async () => void (await act())
    for (const family of families) {
      const out = { transport: "udp", address: outside[family], port: 9000 } as const
      const into = { transport: "tcp", address: uplink[family], port: second.hostPort } as const
      for (const [from, question] of [[first.pod, out] as const, [this.outside, into] as const]) {
        await askEcho(from, question) // waits until duplicate address detection is done
        const within = counted
        counted = async () => void flows.push(await meter.during(from, question, within))
      }
    }
    await counted()
    return flows
  }

  async files(): Promise<string[]> {
    return (await readdir(this.node.binDir)).sort()
  }

  async goFiles(): Promise<string[]> {
    return (await readdir(goPlugins)).sort()
  }

  snapshot(): Promise<Snapshot> {
    return takeSnapshot(this.node.host)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const peer of this.#peers) await peer[Symbol.asyncDispose]()
    await this.node[Symbol.asyncDispose]()
  }
}
