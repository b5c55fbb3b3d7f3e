import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { builtPlugins, type Output, startDaemon, waitFor } from "../lab/mod.ts"
import { imageName, writeImage } from "./busybox.ts"
import { Cri, type PodConfig, type PodStatus } from "./cri.ts"
import { containerdNetwork } from "./networks.ts"
import { confDir, RuntimeHost, runtimeEnv } from "./runtime-host.ts"

const socket = "/run/containerd/containerd.sock"
/** The only directory that `ctr` looks for plugins in. */
export const binDir = "/opt/cni/bin"
const pidFile = "/run/containerd.pid"

/** Puts the plugins under test into `binDir`, by their installer. */
export async function installOurs(host: RuntimeHost): Promise<void> {
  await host.exec(join(builtPlugins, "../cni"), ["install", "--bin-dir", binDir])
}

/** What has to be said besides the defaults: state in memory, and pods that fit into a test's cgroups. */
const containerdToml = `
version = 2
root = "/run/storage"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "${imageName}"
disable_cgroup = true
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "${binDir}"
conf_dir = "${confDir}"
# containerd 2 unpacks by its transfer service, into what its defaults name or this.
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
platform = "linux/${process.arch === "x64" ? "amd64" : process.arch}"
snapshotter = "native"
`

/** What Status says of containerd's networks, with Go's names. */
interface CniConfig {
  readonly Networks?: readonly { readonly Config: { Name: string; Plugins: readonly { Source: string }[] } }[]
}

/** containerd on a host of its own, with one network that is made of the plugins under test. */
export class Containerd implements AsyncDisposable {
  readonly host: RuntimeHost

  private constructor(host: RuntimeHost) {
    this.host = host
  }

  /** Starts it. `network` replaces the tested one, and `prepare` what puts the plugins under test into `binDir`. */
  static async create(network: object = containerdNetwork, prepare = installOurs): Promise<Containerd> {
    const host = await RuntimeHost.create()
    try {
      await prepare(host)
      await host.write("/run/containerd.toml", containerdToml)
      await host.write(`${confDir}/10-pods.conflist`, network)
      const containerd = new Containerd(host)
      await containerd.start()
      const image = await writeImage(host)
      for (const namespace of ["default", "k8s.io"]) {
        await containerd.ctr("-n", namespace, "images", "import", "--snapshotter", "native", image)
      }
      return containerd
    } catch (error) {
      await host[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Starts the daemon and waits until pods can be run. */
  async start(): Promise<void> {
    const script = `echo $$ > ${pidFile}; PATH=${runtimeEnv.PATH} exec containerd --config /run/containerd.toml >> /run/containerd.log 2>&1`
    await startDaemon(this.host.commandLine(["sh", "-ec", script]))
    using cri = this.connect()
    await waitFor(async () => {
      const { status } = await cri.call("Status", {})
      return status.conditions.every((condition) => condition.status)
    }, "containerd to be ready")
  }

  /** Kills the daemon with SIGKILL; containers live on, as they do when it crashes. */
  async kill(): Promise<void> {
    const pid = (await readFile(this.host.file(pidFile), "utf8")).trim()
    await this.host.exec("kill", ["-KILL", pid])
    await waitFor(async () => (await this.host.tryExec("test", ["-e", `/proc/${pid}/exe`])).exitCode !== 0, "its end")
  }

  /** The networks that it has loaded, without its loopback: their names, and the MTU of the first plugin. */
  async networks(): Promise<{ name: string; mtu: unknown }[]> {
    using cri = this.connect()
    const { info } = await cri.call("Status", { verbose: true })
    const { Networks: networks } = JSON.parse(info.cniconfig ?? "{}") as CniConfig
    return (networks ?? [])
      .map(({ Config: { Name: name, Plugins: plugins } }) => ({
        name,
        mtu: JSON.parse(plugins[0]?.Source ?? "{}").mtu,
      }))
      .filter(({ name }) => name !== "cni-loopback")
  }

  /** `ctr …` */
  ctr(...args: string[]): Promise<Output> {
    return this.host.exec("ctr", args, { env: runtimeEnv })
  }

  /** Runs a pod and answers its id. Throws what the runtime says. */
  async runPod(name: string, keys: Partial<PodConfig> = {}): Promise<string> {
    using cri = this.connect()
    const config = { metadata: { name, uid: `uid-${name}`, namespace: "interop" }, hostname: name, linux: {}, ...keys }
    return (await cri.call("RunPodSandbox", { config })).podSandboxId
  }

  async podStatus(podSandboxId: string): Promise<PodStatus> {
    using cri = this.connect()
    return (await cri.call("PodSandboxStatus", { podSandboxId })).status
  }

  async podIds(): Promise<string[]> {
    using cri = this.connect()
    return (await cri.call("ListPodSandbox", {})).items.map(({ id }) => id)
  }

  async stopPod(podSandboxId: string): Promise<void> {
    using cri = this.connect()
    await cri.call("StopPodSandbox", { podSandboxId })
  }

  async removePod(podSandboxId: string): Promise<void> {
    using cri = this.connect()
    await cri.call("RemovePodSandbox", { podSandboxId })
  }

  /** Connects as kubelet does. */
  connect(): Cri {
    return new Cri(this.host.file(socket))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}
