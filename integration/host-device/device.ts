import { Attachment, type ContainerNamespace, connect, HostNamespace, newest, type PluginCall } from "../lab/mod.ts"

/** The device and its settings on the host. */
export const device = { name: "ens5", mac: "0a:00:00:00:00:05", mtu: 1400, alias: "to the lab/3" } as const

/** The fields of a link in `ip -d -j link show` that tests read. */
export interface Shown {
  ifname: string
  address: string
  mtu: number
  flags: string[]
  ifalias?: string
  altnames?: string[]
}

/**
 * Returns the state of a device that must be restored: the output of `ip` without the carrier and without numbers of
 * the kernel.
 */
export async function describe(namespace: { json: HostNamespace["json"] }, name: string): Promise<object> {
  const [link] = await namespace.json<Shown[]>("ip", ["-d", "-j", "link", "show", name])
  const { ifname, address, mtu, ifalias = "", altnames = [], flags = [] } = link ?? {}
  return { ifname, address, mtu, ifalias, altnames, up: flags.includes("UP") }
}

/** The result of `describe` for the device on the host. */
export const asBefore = {
  ifname: device.name,
  address: device.mac,
  mtu: device.mtu,
  ifalias: device.alias,
  altnames: [],
  up: true,
}

/** A host with the device "ens5", which is connected to "port0" on another machine, "lan". */
export class DeviceHost implements AsyncDisposable {
  readonly host: HostNamespace
  readonly lan: ContainerNamespace

  private constructor(host: HostNamespace, lan: ContainerNamespace) {
    this.host = host
    this.lan = lan
  }

  static async create(): Promise<DeviceHost> {
    const host = await HostNamespace.create()
    const lan = await host.addContainer()
    const far = { namespace: lan, link: "port0", addresses: ["192.0.2.9/24", "2001:db8:2::9/64"] }
    await connect({ namespace: host, link: device.name, addresses: ["192.0.2.1/24", "2001:db8:2::1/64"] }, far)
    await host.exec("ip", ["addr", "flush", "dev", device.name, "scope", "global"])
    await host.exec("ip", ["link", "set", device.name, "address", device.mac, "mtu", "1400", "alias", device.alias])
    return new DeviceHost(host, lan)
  }

  async attach(
    keys: object = {},
    call: Partial<PluginCall> = {},
  ): Promise<{ pod: ContainerNamespace; attachment: Attachment }> {
    const pod = await this.host.addContainer()
    return { pod, attachment: new Attachment(this.host, pod, deviceNetwork(keys), call) }
  }

  /** Makes these directories the only buses that the plugin sees. */
  async setSysfs(...directories: readonly string[]): Promise<void> {
    for (const root of ["/sys/bus", "/sys/devices"]) {
      await this.host.exec("mount", ["-t", "tmpfs", "sysfs-of-test", root])
    }
    if (directories.length > 0) await this.host.exec("mkdir", ["-p", ...directories])
  }

  /** Returns the state of the device on the host. */
  describe(): Promise<object> {
    return describe(this.host, device.name)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}

/** Returns a network that gives "ens5" to a container, with addresses in 192.0.2.0/24 and 2001:db8:2::/64. */
export function deviceNetwork(keys: object = {}): Record<string, unknown> {
  const ranges = [
    [{ subnet: "192.0.2.0/24", rangeStart: "192.0.2.100", gateway: "192.0.2.9" }],
    [{ subnet: "2001:db8:2::/64", rangeStart: "2001:db8:2::100", gateway: "2001:db8:2::9" }],
  ]
  const ipam = { type: "host-local", ranges, routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }] }
  return { cniVersion: newest, name: "lab", type: "host-device", device: device.name, ipam, ...keys }
}

/** The path of Debian's Go plugin. */
export const upstream = "/usr/lib/cni/host-device"
