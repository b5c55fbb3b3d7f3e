import { chmod, mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { type ContainerNamespace, HostNamespace, TemporaryDirectory } from "../../lab/mod.ts"
import { ToolOnHost } from "./tool.fixture.ts"

const network = {
  cniVersion: "1.1.0",
  name: "pods",
  plugins: [{ type: "bridge", isGateway: true, ipam: { type: "host-local", ranges: [[{ subnet: "10.85.0.0/29" }]] } }],
}
const rules = `table ip cni_masquerade {
  set containers {
    type ipv4_addr
    elements = { 10.85.0.2 comment "pods/c1/eth0", 10.85.0.3 comment "pods/gone/eth0" }
  }
  chain postrouting {
    type nat hook postrouting priority srcnat;
    ip saddr @containers masquerade
  }
}
`

/**
 * A host with an attachment of network "pods", "c1", of a pod "shop/web", and with the lease and a rule that another,
 * "gone", has left. Its plugins are scripts that do nothing.
 */
export class NodeScene implements AsyncDisposable {
  readonly host: HostNamespace
  readonly pod: ContainerNamespace
  readonly scratch: TemporaryDirectory
  readonly tool: ToolOnHost

  private constructor({ host, pod, scratch, tool }: Pick<NodeScene, "host" | "pod" | "scratch" | "tool">) {
    this.host = host
    this.pod = pod
    this.scratch = scratch
    this.tool = tool
  }

  static async create(): Promise<NodeScene> {
    const host = await HostNamespace.create()
    const scratch = await TemporaryDirectory.create()
    const pod = await host.addContainer()
    const tool = new ToolOnHost(host, { NETCONFPATH: scratch.join("net.d"), CNI_PATH: scratch.join("bin") })
    const lines = [
      "link add cni0 type bridge",
      "link set cni0 up addrgenmode none",
      "address add 10.85.0.1/29 dev cni0",
      `link add veth1 type veth peer name eth0 netns ${pod.name}`,
      "link set veth1 up master cni0 alias pods/c1/eth0 addrgenmode none",
    ]
    await host.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
    await host.exec("nft", ["-f", "-"], { input: rules })
    const inside = [
      "link set eth0 address 02:00:00:00:00:02",
      "link set eth0 up addrgenmode none",
      "address add 10.85.0.2/29 dev eth0",
      "route add default via 10.85.0.1",
    ]
    await pod.exec("ip", ["-batch", "-"], { input: `${inside.join("\n")}\n` })
    const result = {
      cniVersion: "1.1.0",
      interfaces: [{ name: "cni0" }, { name: "veth1" }, { name: "eth0", mac: "02:00:00:00:00:02", sandbox: pod.path }],
      ips: [{ address: "10.85.0.2/29", gateway: "10.85.0.1", interface: 2 }],
      routes: [{ dst: "0.0.0.0/0" }],
    }
    const versions = JSON.stringify({ cniVersion: "1.1.0", supportedVersions: ["1.0.0", "1.1.0"] })
    for (const directory of ["net.d", "bin"]) await mkdir(scratch.join(directory))
    for (const name of ["bridge", "host-local"]) {
      const script = `#!/bin/sh
case "$CNI_COMMAND" in
ADD) echo '${JSON.stringify(result)}' ;;
VERSION) echo '${versions}' ;;
"") echo "cni-plugins v0.1.0" >&2; exit 1 ;;
esac
`
      await writeFile(scratch.join(`bin/${name}`), script)
      await chmod(scratch.join(`bin/${name}`), 0o755)
    }
    await writeFile(scratch.join("net.d/10-pods.conflist"), JSON.stringify(network))
    const store = host.file("/var/lib/cni/networks/pods")
    await mkdir(store, { recursive: true })
    await writeFile(join(store, "10.85.0.2"), "c1\r\neth0")
    await writeFile(join(store, "10.85.0.3"), "gone\r\neth0")
    await host.exec("sysctl", ["-qw", "net.ipv4.ip_forward=1"])
    const CNI_ARGS = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web"
    const added = await tool.run(["add", "pods", pod.path, "--container-id", "c1"], { env: { CNI_ARGS } })
    if (added.exitCode !== 0) throw new Error(added.stderr)
    return new NodeScene({ host, pod, scratch, tool })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.tool[Symbol.asyncDispose]()
    await this.host[Symbol.asyncDispose]()
    await this.scratch[Symbol.asyncDispose]()
  }
}
