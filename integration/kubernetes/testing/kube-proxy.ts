import { kubernetesProgram } from "../../../scripts/go-programs.ts"
import { type HostNamespace, programEnv, TemporaryDirectory, waitFor } from "../../lab/mod.ts"
import type { RealApiServer } from "./api-server.ts"

/** The modes that a network namespace is enough for. */
export const proxyModes = ["iptables", "nftables"] as const
export type ProxyMode = (typeof proxyModes)[number]

/** How long it may take, before patience, until a service is in the rules. */
const syncMs = 60_000

/** A service with two ports of one number: the NodePort, and the one of its ClusterIPs. */
export interface NodePortService {
  readonly name: string
  readonly clusterIps: readonly string[]
  readonly nodePort: number
  readonly port: number
  /** Where it leads: one address for each family, or none. */
  readonly endpoints: readonly string[]
  readonly endpointPort: number
  readonly externalTrafficPolicy?: "Cluster" | "Local"
}

/** A real kube-proxy in a host's namespace. What it has written stays when it ends, as on a node. */
export class KubeProxy implements AsyncDisposable {
  readonly #process: Bun.Subprocess
  readonly #directory: TemporaryDirectory

  private constructor(process: Bun.Subprocess, directory: TemporaryDirectory) {
    this.#process = process
    this.#directory = directory
  }

  /** Starts it for the node `name`; returns when it has written its rules. */
  static async start(host: HostNamespace, api: RealApiServer, mode: ProxyMode, name: string): Promise<KubeProxy> {
    const program = await kubernetesProgram("kube-proxy")
    const directory = await TemporaryDirectory.createLocked("cni-kube-proxy")
    await Bun.write(directory.join("kubeconfig"), JSON.stringify(api.kubeconfig))
    const config = {
      apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
      kind: "KubeProxyConfiguration",
      mode,
      hostnameOverride: name,
      clientConnection: { kubeconfig: directory.join("kubeconfig") },
      clusterCIDR: "10.22.0.0/16,fd00:22::/64",
      // A namespace cannot change the limits of the whole machine.
      conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
      oomScoreAdj: 0,
      healthzBindAddress: "127.0.0.1:10256",
    }
    await Bun.write(directory.join("config.json"), JSON.stringify(config))
    const log = Bun.file(directory.join("log"))
    const command = [
      "nsenter",
      `--net=${host.path}`,
      "--",
      program,
      `--config=${directory.join("config.json")}`,
      "-v=2",
    ]
    const process = Bun.spawn(command, { env: programEnv, stdio: ["ignore", log, log] })
    const proxy = new KubeProxy(process, directory)
    try {
      let before = ""
      const isDone = async () => {
        const { stdout } = await host.exec("nft", ["list", "ruleset"])
        const rules = stdout.replaceAll(/(packets|bytes) \d+/g, "")
        const isSame = rules === before
        before = rules
        return process.exitCode !== null || (isSame && hasService(rules, mode))
      }
      await waitFor(isDone, "kube-proxy's rules", syncMs)
      if (process.exitCode === null) return proxy
      throw new Error(`kube-proxy has ended:\n${(await log.text()).slice(-4000)}`)
    } catch (error) {
      await proxy[Symbol.asyncDispose]()
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL")
    await this.#process.exited
    await this.#directory[Symbol.asyncDispose]()
  }
}

/** Whether rules lead to a service in both families. */
function hasService(rules: string, mode: ProxyMode): boolean {
  const leads = mode === "iptables" ? /jump KUBE-SVC-/ : /goto service-/
  const tables = rules.split(/^table /m)
  return ["ip", "ip6"].every((family) => tables.some((table) => table.startsWith(`${family} `) && leads.test(table)))
}

/** Makes the node, and services with their endpoints on it, as controllers would. */
export async function makeServices(
  api: RealApiServer,
  node: { name: string; addresses: readonly string[] },
  services: readonly NodePortService[],
): Promise<void> {
  const spec = { podCIDRs: ["10.22.0.0/16", "fd00:22::/64"], podCIDR: "10.22.0.0/16" }
  const send = async (method: string, path: string, object: object) => {
    const { status, body } = await api.ask(method, path, object)
    if (status >= 300) throw new Error(`Cannot ${method} ${path}: ${status} ${JSON.stringify(body)}`)
    return body
  }
  const made = await send("POST", "/api/v1/nodes", {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: node.name },
    spec,
  })
  const addresses = node.addresses.map((address) => ({ type: "InternalIP", address }))
  await send("PUT", `/api/v1/nodes/${node.name}/status`, { ...made, status: { addresses } })
  for (const service of services) {
    const { name, clusterIps, nodePort, port, endpoints, endpointPort, externalTrafficPolicy = "Cluster" } = service
    await send("POST", "/api/v1/namespaces/default/services", {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name },
      spec: {
        type: "NodePort",
        ipFamilyPolicy: "RequireDualStack",
        ipFamilies: ["IPv4", "IPv6"],
        clusterIP: clusterIps[0],
        clusterIPs: clusterIps,
        externalTrafficPolicy,
        ports: [{ name: "web", protocol: "TCP", port, targetPort: endpointPort, nodePort }],
      },
    })
    for (const [at, addressType] of (["IPv4", "IPv6"] as const).entries()) {
      const address = endpoints[at]
      await send("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", {
        apiVersion: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: {
          name: `${name}-${addressType.toLowerCase()}`,
          labels: { "kubernetes.io/service-name": name },
        },
        addressType,
        ports: [{ name: "web", protocol: "TCP", port: endpointPort }],
        endpoints:
          address === undefined ? [] : [{ addresses: [address], conditions: { ready: true }, nodeName: node.name }],
      })
    }
  }
}
