import { Attachment, type ContainerNamespace, connect, HostNamespace, newest, type PluginCall } from "../lab/mod.ts"

/** The device, as a host sets it up. */
export const device = { name: "ens5", mac: "0a:00:00:00:00:05", mtu: 1400, alias: "to the lab/3" } as const

/** A link as `ip -d -j link show` shows it, as far as the tests look at it. */
export interface Shown {
  ifname: string
  address: string
  mtu: number
  flags: string[]
  ifalias?: string
  altnames?: string[]
}

/** The state that returns with a device: the output of `ip` without the carrier and the kernel's numbers. */
export async function describe(namespace: { json: HostNamespace["json"] }, name: string): Promise<object> {
  const [link] = await namespace.json<Shown[]>("ip", ["-d", "-j", "link", "show", name])
  const { ifname, address, mtu, ifalias = "", altnames = [], flags = [] } = link ?? {}
  return { ifname, address, mtu, ifalias, altnames, up: flags.includes("UP") }
}

/** The result of `describe` for the device while the host has it. */
export const asBefore = {
  ifname: device.name,
  address: device.mac,
  mtu: device.mtu,
  ifalias: device.alias,
  altnames: [],
  up: true,
}

/** A host with a device, "ens5", whose other end is on another machine: "lan", with "port0". */
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

  /** Shows the plugin other buses, made of these directories. */
  async setSysfs(...directories: readonly string[]): Promise<void> {
    for (const root of ["/sys/bus", "/sys/devices"]) {
      await this.host.exec("mount", ["-t", "tmpfs", "sysfs-of-test", root])
    }
    if (directories.length > 0) await this.host.exec("mkdir", ["-p", ...directories])
  }

  /** The device on the host. */
  describe(): Promise<object> {
    return describe(this.host, device.name)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}

/** A network that gives a container "ens5", with addresses in 192.0.2.0/24 and 2001:db8:2::/64. */
export function deviceNetwork(keys: object = {}): Record<string, unknown> {
  const ranges = [
    [{ subnet: "192.0.2.0/24", rangeStart: "192.0.2.100", gateway: "192.0.2.9" }],
    [{ subnet: "2001:db8:2::/64", rangeStart: "2001:db8:2::100", gateway: "2001:db8:2::9" }],
  ]
  const ipam = { type: "host-local", ranges, routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }] }
  return { cniVersion: newest, name: "lab", type: "host-device", device: device.name, ipam, ...keys }
}

/** The Go plugins that Debian has. */
export const upstream = "/usr/lib/cni/host-device"
