import { join } from "node:path"
import { kubernetesProgram } from "../../../scripts/go-programs.ts"
import { RuntimeHost, runtimeEnv } from "../../interop/runtime-host.ts"
import { type HostNamespace, mustRun, startDaemon, waitFor } from "../../lab/mod.ts"
import { pauseImage } from "./images.ts"
import type { ProxyMode } from "./kube-proxy.ts"

export interface NodeSettings {
  /** The network of the nodes: a namespace with the bridge `lan0`. The namespace is also the nodes' router. */
  readonly lan: HostNamespace
  readonly mode: ProxyMode
  readonly kubeconfig: string
  readonly images: readonly string[]
  readonly logs: string
  /** The addresses of the router, one for each family of the cluster. */
  readonly routers: readonly string[]
  readonly clusterCidr: string
}

/**
 * Settings of the whole machine that kubelet would change. On these nodes kubelet sees files with the values that it
 * requires. With `protectKernelDefaults` kubelet exits if a value differs, and writes none.
 */
const machineSysctls = {
  "vm/overcommit_memory": 1,
  "vm/panic_on_oom": 0,
  "kernel/panic": 10,
  "kernel/panic_on_oops": 1,
  "kernel/keys/root_maxkeys": 1_000_000,
  "kernel/keys/root_maxbytes": 25_000_000,
}

const prepare = `
  mkdir -p /run/var /run/var-work /run/sysctls
  mount -t overlay -o lowerdir=/var,upperdir=/run/var,workdir=/run/var-work cni-test /var
  mkdir -p /var/lib/kubelet /var/lib/cni
  for directory in /var/lib/kubelet /var/lib/cni; do mount -t tmpfs -o mode=755 cni-test $directory; done
  mount --make-shared /var/lib/kubelet
  mount --make-shared /run
  for setting; do
    path=\${setting%=*}
    file=/run/sysctls/$(echo "$path" | tr / _)
    echo "\${setting#*=}" >"$file"
    mount --bind "$file" "/proc/sys/$path"
  done
  sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.bridge.bridge-nf-call-iptables=1
  sysctl -qw net.bridge.bridge-nf-call-ip6tables=1`

const containerdToml = `
version = 2
root = "/run/storage"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "${pauseImage}"
disable_cgroup = true
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"
`

const containerd = "containerd --config /run/containerd.toml"

const kubeletConfiguration = {
  apiVersion: "kubelet.config.k8s.io/v1beta1",
  kind: "KubeletConfiguration",
  authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
  authorization: { mode: "AlwaysAllow" },
  containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock",
  clusterDNS: ["10.96.0.10"],
  clusterDomain: "cluster.local",
  resolvConf: "/run/resolv.conf",
  cgroupDriver: "cgroupfs",
  cgroupsPerQOS: false,
  enforceNodeAllocatable: [],
  localStorageCapacityIsolation: false,
  evictionHard: { "nodefs.available": "0%", "imagefs.available": "0%", "memory.available": "0%" },
  imageGCHighThresholdPercent: 100,
  failSwapOn: false,
  oomScoreAdj: 0,
  protectKernelDefaults: true,
  serializeImagePulls: false,
  volumePluginDir: "/run/kubelet-plugins",
}

/** A node: containerd, kubelet and kube-proxy on their own host, without CNI plugins and without a pod network. */
export class ClusterNode implements AsyncDisposable {
  readonly name: string
  readonly addresses: readonly string[]
  readonly host: RuntimeHost
  readonly #settings: NodeSettings

  private constructor(host: RuntimeHost, name: string, addresses: readonly string[], settings: NodeSettings) {
    this.host = host
    this.name = name
    this.addresses = addresses
    this.#settings = settings
  }

  /** Starts the node with this number, from 1 to 9. */
  static async create(number: number, settings: NodeSettings): Promise<ClusterNode> {
    await using stack = new AsyncDisposableStack()
    const host = stack.use(await RuntimeHost.create())
    const addresses = ["10.99.0.1", "fd00:99::1"].slice(0, settings.routers.length).map((start) => `${start}${number}`)
    const node = new ClusterNode(host, `node-${number}`, addresses, settings)
    const sysctls = Object.entries(machineSysctls).map(([path, value]) => `${path}=${value}`)
    await host.exec("sh", ["-ec", prepare, "sh", ...sysctls])
    await node.#connect()
    await host.write("/run/containerd.toml", containerdToml)
    await node.#startContainerd()
    await node.#startKubelet()
    await node.#startProxy()
    stack.move()
    return node
  }

  async #start(name: string, command: string): Promise<void> {
    const log = join(this.#settings.logs, `${this.name}-${name}.log`)
    const script = `PATH=${runtimeEnv.PATH} exec ${command} >>${log} 2>&1`
    await startDaemon(this.host.commandLine(["sh", "-ec", script]))
  }

  async #connect(): Promise<void> {
    const { lan, routers } = this.#settings
    const peer = ["peer", "name", "eth0", "netns", this.host.name]
    await mustRun(["ip", "-n", lan.name, "link", "add", this.name, "type", "veth", ...peer])
    await lan.exec("ip", ["link", "set", this.name, "master", "lan0", "up"])
    await this.host.exec("ip", ["link", "set", "eth0", "up"])
    for (const [at, address] of this.addresses.entries()) {
      await this.host.exec("ip", ["address", "add", `${address}/${at === 0 ? 24 : 64}`, "dev", "eth0", "nodad"])
      await this.host.exec("ip", ["route", "add", "default", "via", routers[at] ?? ""])
    }
    await this.host.write("/run/resolv.conf", `nameserver ${routers[0]}\n`)
  }

  /** Kills containerd with SIGKILL and starts it again. Pods continue to run. */
  async restartContainerd(): Promise<void> {
    await this.host.exec("pkill", ["-KILL", "-x", "containerd"])
    await this.#start("containerd", containerd)
  }

  async #startContainerd(): Promise<void> {
    await this.#start("containerd", containerd)
    const ctr = (...args: string[]) => this.host.exec("ctr", args, { env: runtimeEnv })
    await waitFor(() => ctr("version"), "containerd to answer", 300_000)
    for (const image of this.#settings.images)
      await ctr("-n", "k8s.io", "images", "import", "--snapshotter", "overlayfs", image)
  }

  async #startKubelet(): Promise<void> {
    await this.host.write("/run/kubelet.json", kubeletConfiguration)
    const flags = [
      "--config=/run/kubelet.json",
      `--kubeconfig=${this.#settings.kubeconfig}`,
      `--hostname-override=${this.name}`,
      `--node-ip=${this.addresses.join(",")}`,
    ]
    await this.#start("kubelet", `${await kubernetesProgram("kubelet")} ${flags.join(" ")}`)
  }

  /** Kills kubelet with SIGKILL and starts it again. Pods continue to run. */
  async restartKubelet(): Promise<void> {
    await this.host.exec("pkill", ["-KILL", "--oldest", "kubelet"])
    await this.#startKubelet()
  }

  async #startProxy(): Promise<void> {
    const { mode, kubeconfig, clusterCidr } = this.#settings
    await this.host.write("/run/kube-proxy.json", {
      apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
      kind: "KubeProxyConfiguration",
      mode,
      hostnameOverride: this.name,
      clientConnection: { kubeconfig },
      clusterCIDR: clusterCidr,
      // A network namespace cannot change the conntrack limits of the whole machine.
      conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
      oomScoreAdj: 0,
    })
    await this.#start("kube-proxy", `${await kubernetesProgram("kube-proxy")} --config=/run/kube-proxy.json`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}
