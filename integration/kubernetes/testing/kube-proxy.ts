import { kubernetesProgram } from "../../../scripts/go-programs.ts"
import { type ClusterApi, kubeconfigOf } from "../../agent/testing/api.ts"
import { type HostNamespace, programEnv, TemporaryDirectory, waitFor } from "../../lab/mod.ts"

export type ProxyMode = "iptables" | "nftables" | "ipvs"

/** The time in milliseconds, before `scaleTimeout`, within which kube-proxy must write the rules of a service. */
const syncMs = 25_000

/** A service with a NodePort, and with a port at its ClusterIPs. */
export interface NodePortService {
  readonly name: string
  readonly clusterIps: readonly string[]
  readonly nodePort: number
  readonly port: number
  /** The addresses of its endpoint, IPv4 first, or an empty list. */
  readonly endpoints: readonly string[]
  readonly endpointPort: number
}

/** A real kube-proxy in a host's namespace. kube-proxy's rules stay when it ends, as on a node. */
export class KubeProxy implements AsyncDisposable {
  readonly #process: Bun.Subprocess
  readonly #directory: TemporaryDirectory

  private constructor(process: Bun.Subprocess, directory: TemporaryDirectory) {
    this.#process = process
    this.#directory = directory
  }

  /** Starts kube-proxy for the node `name`, and waits until it has written its rules. */
  static async start(host: HostNamespace, api: ClusterApi, mode: ProxyMode, name: string): Promise<KubeProxy> {
    const program = await kubernetesProgram("kube-proxy")
    const directory = await TemporaryDirectory.createLocked("cni-kube-proxy")
    await Bun.write(directory.join("kubeconfig"), JSON.stringify(kubeconfigOf(api)))
    const config = {
      apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
      kind: "KubeProxyConfiguration",
      mode,
      hostnameOverride: name,
      clientConnection: { kubeconfig: directory.join("kubeconfig"), contentType: "application/json" },
      clusterCIDR: "10.22.0.0/16,fd00:22::/64",
      // A network namespace cannot change the conntrack limits of the whole machine.
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
      "-v=4",
    ]
    const process = Bun.spawn(command, { env: programEnv, stdio: ["ignore", log, log] })
    const proxy = new KubeProxy(process, directory)
    try {
      const isDone = async () => process.exitCode !== null || hasSynced(await log.text())
      await waitFor(isDone, "kube-proxy's rules", syncMs)
      if (process.exitCode === null) return proxy
      throw new Error("kube-proxy has ended")
    } catch (cause) {
      const logged = (await log.text()).slice(-4000)
      await proxy[Symbol.asyncDispose]()
      throw new Error(`Cannot start kube-proxy in mode ${mode}: ${cause}\n${logged}`, { cause })
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL")
    await this.#process.exited
    await this.#directory[Symbol.asyncDispose]()
  }
}

/** Reports whether kube-proxy's log says that it has written the rules of both families. */
function hasSynced(log: string): boolean {
  return ["IPv4", "IPv6"].every((family) => new RegExp(`yncProxyRules complete" ipFamily="${family}"`).test(log))
}

async function send(api: ClusterApi, method: string, path: string, object?: object) {
  const { status, body } = await api.ask(method, path, object)
  if (status >= 300) throw new Error(`Cannot ${method} ${path}: ${status} ${JSON.stringify(body)}`)
  return body
}

/** Creates the Node object, as kubelet and the controller of ranges do. */
export async function makeNode(api: ClusterApi, name: string, addresses: readonly string[]): Promise<void> {
  const spec = { podCIDRs: ["10.22.0.0/16", "fd00:22::/64"], podCIDR: "10.22.0.0/16" }
  const node = { apiVersion: "v1", kind: "Node", metadata: { name }, spec }
  const made = await send(api, "POST", "/api/v1/nodes", node)
  const status = { addresses: addresses.map((address) => ({ type: "InternalIP", address })) }
  await send(api, "PUT", `/api/v1/nodes/${name}/status`, { ...made, status })
}

const SERVICES = "/api/v1/namespaces/default/services"
const SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"

/** Creates a service whose endpoints are on a node, as controllers do. Disposing the result deletes the service. */
export async function makeService(
  api: ClusterApi,
  nodeName: string,
  { name, clusterIps, nodePort, port, endpoints, endpointPort }: NodePortService,
): Promise<AsyncDisposable> {
  await send(api, "POST", SERVICES, {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    spec: {
      type: "NodePort",
      ipFamilyPolicy: "RequireDualStack",
      ipFamilies: ["IPv4", "IPv6"],
      clusterIP: clusterIps[0],
      clusterIPs: clusterIps,
      externalTrafficPolicy: "Cluster",
      ports: [{ name: "web", protocol: "TCP", port, targetPort: endpointPort, nodePort }],
    },
  })
  for (const [at, address] of endpoints.entries()) {
    const addressType = at === 0 ? "IPv4" : "IPv6"
    await send(api, "POST", SLICES, {
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { name: `${name}-${addressType.toLowerCase()}`, labels: { "kubernetes.io/service-name": name } },
      addressType,
      ports: [{ name: "web", protocol: "TCP", port: endpointPort }],
      endpoints: [{ addresses: [address], conditions: { ready: true }, nodeName }],
    })
  }
  return { [Symbol.asyncDispose]: async () => void (await send(api, "DELETE", `${SERVICES}/${name}`)) }
}
