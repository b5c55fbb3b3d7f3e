import { join } from "node:path"
import { builtPlugins, type Output } from "../lab/mod.ts"
import { imageName, writeImage } from "./busybox.ts"
import { PodRuntime } from "./cri.ts"
import { containerdNetwork } from "./networks.ts"
import { confDir, RuntimeHost, runtimeEnv } from "./runtime-host.ts"

/** The only directory in which `ctr` searches plugins. */
export const binDir = "/opt/cni/bin"

export async function installOurs(host: RuntimeHost): Promise<void> {
  await host.exec(join(builtPlugins, "../cni"), ["install", "--bin-dir", binDir])
}

/** The settings that differ from the defaults: state in memory, and pods that need no cgroups of their own. */
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

/** The networks in containerd's Status, with the names of its Go types. */
interface CniConfig {
  readonly Networks?: readonly { readonly Config: { Name: string; Plugins: readonly { Source: string }[] } }[]
}

/** containerd on its own host, with one network that uses the plugins under test. */
export class Containerd extends PodRuntime {
  /**
   * Starts containerd. `network` replaces the network under test, and `prepare` replaces the installation of the
   * plugins.
   */
  static async create(network: object = containerdNetwork, prepare = installOurs): Promise<Containerd> {
    const host = await RuntimeHost.create()
    try {
      await prepare(host)
      await host.write("/run/containerd.toml", containerdToml)
      await host.write(`${confDir}/10-pods.conflist`, network)
      const containerd = new Containerd(host, "/run/containerd/containerd.sock")
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

  start(): Promise<void> {
    return this.startProgram("containerd --config /run/containerd.toml")
  }

  /** Returns the loaded networks except containerd's loopback: their names, and the MTU of the first plugin. */
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

  ctr(...args: string[]): Promise<Output> {
    return this.host.exec("ctr", args, { env: runtimeEnv })
  }
}
