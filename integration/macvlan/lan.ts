import { Attachment, type ContainerNamespace, connect, HostNamespace, newest, type PluginCall } from "../lab/mod.ts"

/** A host that is connected to another machine, "lan", by its interface "up0", in 192.0.2.0/24 and 2001:db8:2::/64. */
export class LanHost implements AsyncDisposable {
  readonly host: HostNamespace
  /** The machine at the other end of "up0", with interface "port0". */
  readonly lan: ContainerNamespace

  private constructor(host: HostNamespace, lan: ContainerNamespace) {
    this.host = host
    this.lan = lan
  }

  static async create(): Promise<LanHost> {
    const host = await HostNamespace.create()
    const lan = await host.addContainer()
    await connect(
      { namespace: host, link: "up0", addresses: ["192.0.2.1/24", "2001:db8:2::1/64"] },
      { namespace: lan, link: "port0", addresses: ["192.0.2.9/24", "2001:db8:2::9/64"] },
    )
    return new LanHost(host, lan)
  }

  async attach(
    keys: object = {},
    call: Partial<PluginCall> = {},
  ): Promise<{ pod: ContainerNamespace; attachment: Attachment }> {
    const pod = await this.host.addContainer()
    return { pod, attachment: new Attachment(this.host, pod, macvlanNetwork(keys), call) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}

/** Returns a macvlan network on "up0" with host-local addresses from 192.0.2.100 and 2001:db8:2::100. */
export function macvlanNetwork(keys: object = {}): Record<string, unknown> {
  const ranges = [
    [{ subnet: "192.0.2.0/24", rangeStart: "192.0.2.100", gateway: "192.0.2.9" }],
    [{ subnet: "2001:db8:2::/64", rangeStart: "2001:db8:2::100", gateway: "2001:db8:2::9" }],
  ]
  const ipam = { type: "host-local", ranges, routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }] }
  return { cniVersion: newest, name: "lan", type: "macvlan", master: "up0", ipam, ...keys }
}
