import { relative } from "node:path"
import { version } from "../../../package.json"
import { kubernetesProgram } from "../../../scripts/go-programs.ts"
import { kubeconfigOf } from "../../agent/testing/api.ts"
import { kustomization } from "../../deploy/manifests.ts"
import { HostNamespace, type Output, programEnv, TemporaryDirectory, waitFor } from "../../lab/mod.ts"
import { RealApiServer } from "./api-server.ts"
import { clusterDns } from "./cluster-dns.ts"
import { ClusterNode } from "./cluster-node.ts"
import type { ProxyMode } from "./kube-proxy.ts"

/**
 * The time limit of a step in ms, before `scaleTimeout`. It allows for a busy machine; on an idle machine a step takes
 * less than a minute.
 */
const stepMs = 300_000
const timeout = `--timeout=${stepMs / 1000}s`

/** For each family: the ranges of pods, as in deploy/kubernetes, and of services, and the nodes' router. */
const families = [
  { pods: "10.244.0.0/16", services: "10.96.0.0/16", router: "10.99.0.254", length: 24 },
  { pods: "fd00:10:244::/48", services: "fd00:96::/112", router: "fd00:99::254", length: 64 },
]

/** The ranges of the pods on each node, by the node's name. */
export type Ranges = ReadonlyMap<string, readonly string[]>

type Controller = "kube-controller-manager" | "kube-scheduler"

export interface ClusterOptions {
  readonly mode: ProxyMode
  readonly isDualStack: boolean
  /** The flags of kube-controller-manager for the sizes of ranges. */
  readonly ranges?: readonly string[]
  /** Installs the pod network, by default deploy/kubernetes. */
  readonly install?: (cluster: Cluster, ranges: Ranges) => Promise<void>
  readonly images: readonly string[]
  readonly logs: string
}

/**
 * A cluster of three nodes in namespaces. The control plane is in the namespace that connects the nodes. `kubectl apply
 * -k deploy/kubernetes` sets up the pod network.
 */
export class Cluster implements AsyncDisposable {
  /** The namespace of the control plane. */
  readonly lan: HostNamespace
  readonly nodes: ClusterNode[] = []
  readonly api: RealApiServer
  readonly directory: TemporaryDirectory
  readonly #options: ClusterOptions
  readonly #owned: AsyncDisposableStack
  readonly #controllers = new Map<Controller, Bun.Subprocess>()
  #flags: Readonly<Record<Controller, readonly string[]>> | undefined

  private constructor(
    lan: HostNamespace,
    api: RealApiServer,
    directory: TemporaryDirectory,
    options: ClusterOptions,
    owned: AsyncDisposableStack,
  ) {
    this.lan = lan
    this.api = api
    this.directory = directory
    this.#options = options
    this.#owned = owned
  }

  /** Starts the control plane, to which `start` adds the nodes. */
  static async create(options: ClusterOptions): Promise<Cluster> {
    await using stack = new AsyncDisposableStack()
    const used = families.slice(0, options.isDualStack ? 2 : 1)
    const directory = stack.use(await TemporaryDirectory.createLocked("cni-cluster"))
    const lan = stack.use(await HostNamespace.create("lan"))
    await lan.exec("ip", ["link", "add", "lan0", "type", "bridge"])
    await lan.exec("ip", ["link", "set", "lan0", "up"])
    for (const { router, length } of used)
      await lan.exec("ip", ["address", "add", `${router}/${length}`, "dev", "lan0", "nodad"])
    const forwarding = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]
    await lan.exec("sysctl", ["-qw", ...forwarding, "net.bridge.bridge-nf-call-iptables=0"])
    const services = used.map(({ services }) => services).join(",")
    const api = stack.use(
      await RealApiServer.start(lan, "10.99.0.254", [
        `--service-cluster-ip-range=${services}`,
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
      ]),
    )
    const cluster = new Cluster(lan, api, directory, options, stack.move())
    await Bun.write(cluster.kubeconfig, JSON.stringify({ apiVersion: "v1", kind: "Config", ...kubeconfigOf(api) }))
    const pods = used.map(({ pods }) => pods).join(",")
    const common = [`--kubeconfig=${cluster.kubeconfig}`, "--leader-elect=false"]
    cluster.#flags = {
      "kube-controller-manager": [
        ...common,
        ...["--allocate-node-cidrs=true", `--cluster-cidr=${pods}`, `--service-cluster-ip-range=${services}`],
        ...[`--root-ca-file=${api.caFile}`, ...(options.ranges ?? [])],
      ],
      "kube-scheduler": common,
    }
    await cluster.begin("kube-controller-manager")
    await cluster.begin("kube-scheduler")
    return cluster
  }

  get kubeconfig(): string {
    return this.directory.join("kubeconfig")
  }

  /** Starts a program of the control plane. The program ends with the namespace. */
  async begin(name: Controller): Promise<void> {
    const log = Bun.file(`${this.#options.logs}/${name}.log`)
    const command = this.lan.commandLine([await kubernetesProgram(name), ...(this.#flags?.[name] ?? [])])
    const process = Bun.spawn(command, { env: { ...programEnv }, stdio: ["ignore", log, log] })
    process.unref()
    this.#controllers.set(name, process)
  }

  /** Kills a program of the control plane with SIGKILL. */
  async end(name: Controller): Promise<void> {
    this.#controllers.get(name)?.kill("SIGKILL")
    await this.#controllers.get(name)?.exited
  }

  async kubectl(args: readonly string[], input?: string): Promise<Output> {
    const command = ["--kubeconfig", this.kubeconfig, ...args]
    const env = { ...programEnv, HOME: this.directory.path }
    return this.lan.exec(await kubernetesProgram("kubectl"), command, { env, ...(input !== undefined && { input }) })
  }

  /** Creates or changes an object, like `kubectl apply`. */
  async apply(object: object): Promise<void> {
    await this.kubectl(["apply", "-f", "-"], JSON.stringify(object))
  }

  /** Starts three nodes and installs the pod network and DNS. Waits until both are ready. */
  async start(): Promise<void> {
    const used = families.slice(0, this.#options.isDualStack ? 2 : 1)
    const { lan, kubeconfig } = this
    const shared = { routers: used.map(({ router }) => router), clusterCidr: used.map(({ pods }) => pods).join(",") }
    const start = async (number: number) => {
      this.nodes.push(
        this.#owned.use(await ClusterNode.create(number, { ...this.#options, lan, kubeconfig, ...shared })),
      )
    }
    await Promise.all([1, 2, 3].map(start))
    const ranges = await waitFor(() => this.#readRanges(), "the nodes to have ranges", stepMs)
    await this.#routeToPods(ranges)
    await (this.#options.install ?? applyDeployment)(this, ranges)
    await this.kubectl(["wait", "--for=condition=Ready", "nodes", "--all", timeout])
    await this.apply(clusterDns)
    await this.waitUntilReady("deployment/coredns", "kube-system")
  }

  /** Waits until the pods of a workload are ready. */
  async waitUntilReady(workload: string, namespace = "default"): Promise<void> {
    await this.kubectl(["-n", namespace, "rollout", "status", timeout, workload])
  }

  /** Returns the ranges of pods, or undefined until each node has its own. */
  async #readRanges(): Promise<Ranges | undefined> {
    const { body } = await this.api.ask("GET", "/api/v1/nodes")
    const ranges = new Map<string, readonly string[]>()
    for (const { metadata, spec } of body.items) if (spec.podCIDRs) ranges.set(metadata.name, spec.podCIDRs)
    return ranges.size === this.nodes.length ? ranges : undefined
  }

  /** Adds the control plane's routes to the nodes' ranges, because the API server's proxy connects to pods. */
  async #routeToPods(ranges: Ranges): Promise<void> {
    for (const { name, addresses } of this.nodes)
      for (const [at, range] of (ranges.get(name) ?? []).entries())
        await this.lan.exec("ip", ["route", "replace", range, "via", addresses[at] ?? ""])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned[Symbol.asyncDispose]()
  }
}

/** Applies deploy/kubernetes with an overlay that names the imported image. */
async function applyDeployment(cluster: Cluster): Promise<void> {
  const overlay = {
    apiVersion: "kustomize.config.k8s.io/v1beta1",
    kind: "Kustomization",
    resources: [relative(cluster.directory.path, kustomization)],
    images: [{ name: "cni-plugins", newName: "localhost/cni-plugins", newTag: version }],
  }
  await Bun.write(cluster.directory.join("kustomization.yaml"), JSON.stringify(overlay))
  await cluster.kubectl(["apply", "-k", cluster.directory.path])
  await cluster.waitUntilReady("daemonset/cni-plugins", "cni-plugins")
}
