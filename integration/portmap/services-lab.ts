import { join } from "node:path"
import {
  builtPlugins,
  EchoPeer,
  type EchoReply,
  type Namespace,
  outside,
  programEnv,
  ruleBackends,
  scaleTimeout,
  succeed,
  waitLimitMs,
} from "../lab/mod.ts"
import { hostAddresses, type MappedPod, type PodKeys, type PortMapping, PortmapLab } from "./portmap-lab.ts"

/**
 * The service of the captured rules: a NodePort, and ClusterIPs of both families. Its endpoint is the first container.
 */
export const service = {
  nodePort: 30080,
  clusterIps: ["10.96.0.80", "fd00:96::80"],
  port: 80,
  endpoints: ["10.22.0.2", "fd00:22::2"],
  endpointPort: 80,
} as const

export const askers = ["outside", "node", "pod"] as const

export const freePort = 30081

/** Mappings with which a container tries to take over the service's packets, and a mapping of another port. */
export const greedy: readonly PortMapping[] = [
  { hostPort: freePort, containerPort: 80, protocol: "tcp" },
  { hostPort: service.nodePort, containerPort: 80, protocol: "tcp" },
  { hostPort: service.port, containerPort: 80, protocol: "tcp" },
  ...service.clusterIps.map((hostIP) => ({
    hostPort: service.port,
    containerPort: 80,
    protocol: "tcp" as const,
    hostIP,
  })),
]

/** The modes of kube-proxy that need only a packet filter. */
export const captured = ["iptables", "nftables"] as const

/** Returns the path of kube-proxy's rules for `service` in a mode, captured by `npm run test:kubernetes`. */
export function capturedFile(mode: (typeof captured)[number], family: "ip" | "ip6"): string {
  return join(import.meta.dir, "kube-proxy", `${mode}.${family}`)
}

/** Returns kube-proxy's rules on the host as text, without counter objects and parts that differ in each run. */
export async function captureRules(host: Namespace, mode: (typeof captured)[number], family: "ip" | "ip6") {
  const program = family === "ip" ? "iptables-save" : "ip6tables-save"
  const command = mode === "iptables" ? [program] : ["nft", "list", "table", family, "kube-proxy"]
  const { stdout } = await host.exec(command[0] ?? "", command.slice(1))
  return stdout
    .replaceAll(/^#.*\n/gm, "")
    .replaceAll(/\[\d+:\d+\]/g, "[0:0]")
    .replaceAll(/packets \d+ bytes \d+/g, "packets 0 bytes 0")
    .replaceAll(/ -m nfacct --nfacct-name +\S+/g, "")
}

/** A script that connects to echo servers in sequence, all in one process. */
const ask = 'for at in "$@"; do exec 3<>"$at" || exit 1; printf hello >&3; read -r line <&3; echo "$line"; done'

/** A host with three containers (one behind a service, one with mapped ports, one client), and another machine. */
export class ServicesLab implements AsyncDisposable {
  readonly lab: PortmapLab
  readonly endpoint: MappedPod
  readonly mapped: MappedPod
  readonly other: MappedPod
  readonly #owned: AsyncDisposableStack

  private constructor(lab: PortmapLab, pods: readonly [MappedPod, MappedPod, MappedPod], owned: AsyncDisposableStack) {
    this.lab = lab
    ;[this.endpoint, this.mapped, this.other] = pods
    this.#owned = owned
  }

  static async create(keys: PodKeys = {}): Promise<ServicesLab> {
    await using stack = new AsyncDisposableStack()
    const lab = stack.use(await PortmapLab.create({ ...ruleBackends[0], iptables: "nf_tables" }))
    await lab.host.exec("ip", ["route", "add", "default", "via", outside.ip])
    await lab.host.exec("ip", ["-6", "route", "add", "default", "via", outside.ip6])
    await lab.outside.exec("ip", ["route", "add", "10.96.0.0/12", "via", hostAddresses.ip])
    await lab.outside.exec("ip", ["-6", "route", "add", "fd00:96::/64", "via", hostAddresses.ip6])
    const pods = [await lab.addPod(keys), await lab.addPod(keys), await lab.addPod(keys)] as const
    // Every node has these settings. Without them, answers between containers would not pass the packet filter.
    await lab.host.exec("sysctl", [
      "-qw",
      "net.bridge.bridge-nf-call-iptables=1",
      "net.bridge.bridge-nf-call-ip6tables=1",
    ])
    for (const { namespace } of pods.slice(0, 2)) stack.use(await EchoPeer.start(namespace, { port: 80 }))
    return new ServicesLab(lab, pods, stack.move())
  }

  /** Loads kube-proxy's rules as kube-proxy does: all rules of a family at once. */
  async loadCaptured(mode: (typeof captured)[number]): Promise<void> {
    for (const family of ["ip", "ip6"] as const) {
      const input = await Bun.file(capturedFile(mode, family)).text()
      const restore = family === "ip" ? "iptables-restore" : "ip6tables-restore"
      const [program = "", ...args] = mode === "iptables" ? [restore, "--noflush"] : ["nft", "-f", "-"]
      await this.lab.host.exec(program, args, { input })
    }
  }

  async mapGreedily(): Promise<void> {
    await succeed(this.mapped.map(greedy))
  }

  /** Runs `cni reconcile`, with a cache record of the greedy container. */
  async reconcile(): Promise<void> {
    const { namespace, ifName, link, result } = this.mapped
    const { name, cniVersion, ...bridge } = link.config
    const plugins = [bridge, { ...this.lab.backend.keys, type: "portmap", capabilities: { portMappings: true } }]
    const record = {
      kind: "cniCacheV1",
      containerId: namespace.name,
      ifName,
      networkName: name,
      netns: namespace.path,
      capabilityArgs: { portMappings: greedy },
      config: btoa(JSON.stringify({ cniVersion, name, plugins })),
      result,
    }
    const { host } = this.lab
    await Bun.write(host.file(`/var/lib/cni/results/${name}-${namespace.name}-${ifName}`), JSON.stringify(record))
    await host.exec(join(builtPlugins, "../cni"), ["reconcile"], { env: { ...programEnv, CNI_PATH: builtPlugins } })
  }

  /** Deletes all rules and the link of ipvs mode. */
  async clear(): Promise<void> {
    await succeed(this.mapped.unmap())
    await this.lab.host.exec("nft", ["flush", "ruleset"])
    await this.lab.host.tryExec("ip", ["link", "delete", "kube-ipvs0"])
  }

  /** Returns who answers each machine at a port of the host's addresses and ClusterIPs: "service" or "mapping". */
  async answers(port: number = service.nodePort): Promise<Record<string, string>> {
    const { ip, ip6 } = hostAddresses
    const { host, outside } = this.lab
    const nodePorts = [ip, ip6].map((address) => ({ address, port }))
    const clusterIps = service.clusterIps
      .map((address) => ({ address, port: service.port }))
      .filter(() => port === service.nodePort)
    const targets = [...nodePorts, ...clusterIps]
    const places = targets.map(({ address, port }) => `/dev/tcp/${address}/${port}`)
    const answers: Record<string, string> = {}
    const namespaces = { outside, node: host, pod: this.other.namespace }
    for (const who of askers) {
      const from = namespaces[who]
      const { stdout } = await from.exec("timeout", [
        String(scaleTimeout(waitLimitMs) / 1000),
        "bash",
        "-c",
        ask,
        "",
        ...places,
      ])
      for (const [at, line] of stdout.trim().split("\n").entries()) {
        const { to } = JSON.parse(line) as EchoReply
        const isService = to.address === this.endpoint.ip || to.address === this.endpoint.ip6
        answers[`${who} to ${targets[at]?.address}`] = isService ? "service" : "mapping"
      }
    }
    return answers
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned[Symbol.asyncDispose]()
  }
}

/** The result of `answers` when the service gets all of its connections. */
export const serviceAnswers: Readonly<Record<string, string>> = Object.fromEntries(
  askers.flatMap((who) =>
    [hostAddresses.ip, hostAddresses.ip6, ...service.clusterIps].map((address) => [`${who} to ${address}`, "service"]),
  ),
)
