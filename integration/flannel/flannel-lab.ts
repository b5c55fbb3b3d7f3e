import { Attachment, type ContainerNamespace, HostNamespace, newest, type PluginCall } from "../lab/mod.ts"

/**
 * The path of the subnet file on test hosts. It is not the usual path, because the machine may have a real file there.
 */
export const subnetFile = "/run/cni/subnet.env"

/**
 * The entries of flanneld's subnet file for IPv4 on a node with 10.244.1.0/24, in flanneld's order. The file omits
 * entries whose value is undefined.
 */
export const ipv4Node = {
  FLANNEL_NETWORK: "10.244.0.0/16",
  FLANNEL_SUBNET: "10.244.1.1/24",
  FLANNEL_MTU: "1410",
  FLANNEL_IPMASQ: "true",
}

export type SubnetKeys = Readonly<Record<string, string | undefined>>

/** A host on which flanneld has written a subnet file. */
export class FlannelHost implements AsyncDisposable {
  readonly host: HostNamespace

  private constructor(host: HostNamespace) {
    this.host = host
  }

  static async create(keys: SubnetKeys | undefined = ipv4Node): Promise<FlannelHost> {
    const net = new FlannelHost(await HostNamespace.create("node"))
    await net.writeSubnets(keys)
    return net
  }

  async writeSubnets(keys: SubnetKeys): Promise<void> {
    const lines = Object.entries(keys).flatMap(([key, value]) => (value === undefined ? [] : [`${key}=${value}\n`]))
    await Bun.write(this.host.file(subnetFile), lines.join(""))
  }

  attachment(pod: ContainerNamespace, keys: object = {}, call: Partial<PluginCall> = {}): Attachment {
    const delegate = { bridge: "cni0", isDefaultGateway: true }
    const config = { cniVersion: newest, name: "podnet", type: "flannel", subnetFile, delegate, ...keys }
    return new Attachment(this.host, pod, config, call)
  }

  /** Returns the saved configurations of delegates, by file name. */
  async kept(): Promise<Record<string, string>> {
    const { stdout } = await this.host.exec("sh", ["-c", "cd /var/lib/cni/flannel 2>/dev/null && ls -A || true"])
    const names = stdout.split("\n").filter(Boolean)
    const texts = names.map((name) => Bun.file(this.host.file(`/var/lib/cni/flannel/${name}`)).text())
    return Object.fromEntries((await Promise.all(texts)).map((text, at) => [names[at] ?? "", text]))
  }

  /**
   * Returns a directory with the plugins under test and a delegate. The delegate is a shell script that writes its
   * input to /run/cni/VERB and runs `body`.
   */
  async addDelegate(name: string, body: string): Promise<string> {
    const directory = "/run/cni/bin"
    const script = `#!/bin/sh\ncat > /run/cni/$CNI_COMMAND\n${body}\n`
    await Bun.write(this.host.file(`${directory}/${name}`), script)
    await this.host.exec("chmod", ["755", `${directory}/${name}`])
    return directory
  }

  /** Returns the input that the delegate got for a verb. */
  async given(verb: string): Promise<Record<string, unknown>> {
    return Bun.file(this.host.file(`/run/cni/${verb}`)).json()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}
