import { createHash } from "node:crypto"
import {
  Attachment,
  type ContainerNamespace,
  gatewayBridge,
  HostNamespace,
  type Namespace,
  newest,
  type PluginCall,
  type PluginResult,
} from "../lab/mod.ts"

/** A qdisc in the output of `tc -j qdisc show`. */
export interface ShownQdisc {
  kind: string
  handle: string
  dev: string
  root?: boolean
  parent?: string
  options: { rate?: number; burst?: number; lat?: number; default?: string; limit?: number }
}

/** Returns the qdiscs of a namespace, without the kernel's default qdiscs. */
export async function qdiscsOf(where: Namespace): Promise<ShownQdisc[]> {
  const all = await where.json<ShownQdisc[]>("tc", ["-j", "qdisc", "show"])
  return all.filter(({ handle }) => handle !== "0:")
}

/** Returns the qdiscs of a namespace as "DEV KIND HANDLE PLACE". */
export async function qdiscLines(where: Namespace): Promise<string[]> {
  const all = await qdiscsOf(where)
  return all.map(({ dev, kind, handle, root, parent }) => `${dev} ${kind} ${handle} ${root ? "root" : parent}`).sort()
}

/** Returns the output lines of `tc filter show` for a link and a place such as "ingress". */
export async function filterLines(where: Namespace, dev: string, place: string[]): Promise<string[]> {
  const { exitCode, stdout } = await where.tryExec("tc", ["filter", "show", "dev", dev, ...place])
  return exitCode === 0 ? stdout.split("\n").flatMap((line) => line.trim() || []) : []
}

/** Returns the names of the ifb devices, which limits use. */
export async function ifbsOf(where: Namespace): Promise<string[]> {
  const links = await where.json<{ ifname?: string }[]>("ip", ["-j", "link", "show", "type", "ifb"])
  return links.flatMap(({ ifname }) => ifname ?? []).sort() // `ip` prints an empty object for links of other types
}

/** Returns the name that the Go plugin gives to a container's ifb device. */
export function upstreamName(network: string, containerId: string): string {
  return `bwp${createHash("sha512")
    .update(network + containerId)
    .digest("hex")
    .slice(0, 12)}`
}

/** The plugins that create the container's interface, with their requirements on the host. */
const makers = {
  bridge: gatewayBridge("lab"),
  ptp: { ipam: gatewayBridge("lab").ipam },
  macvlan: { master: "uplink", ipam: gatewayBridge("lab").ipam },
  ipvlan: { master: "uplink", ipam: gatewayBridge("lab").ipam },
  "host-device": { device: "dev0", ipam: gatewayBridge("lab").ipam },
} as const

export type Maker = keyof typeof makers

/** The options of a container's connection to the host. */
export interface Connection {
  maker?: Maker
  ifName?: string
  cniVersion?: string
  host?: HostNamespace
  pod?: ContainerNamespace
  call?: Partial<PluginCall>
}

/** A container that an interface plugin has connected, with the attachment of the bandwidth plugin. */
export class Limited implements AsyncDisposable {
  readonly host: HostNamespace
  readonly pod: ContainerNamespace
  readonly maker: Attachment
  /** The result of the interface plugin. */
  readonly prevResult: PluginResult
  readonly bandwidth: Attachment

  private constructor(
    host: HostNamespace,
    pod: ContainerNamespace,
    maker: Attachment,
    prevResult: PluginResult,
    bandwidth: Attachment,
  ) {
    this.host = host
    this.pod = pod
    this.maker = maker
    this.prevResult = prevResult
    this.bandwidth = bandwidth
  }

  /** Creates a host and connects a container. `keys` are keys of the bandwidth plugin. */
  static async create(keys: object = {}, connection: Connection = {}): Promise<Limited> {
    const { maker: type = "bridge", ifName = "eth0", cniVersion = newest } = connection
    const host = connection.host ?? (await HostNamespace.create())
    if (!connection.host) await addUplinks(host)
    const pod = connection.pod ?? (await host.addContainer())
    const common = { cniVersion, name: "lab" }
    const call = { ifName, ...connection.call }
    const maker = new Attachment(host, pod, { ...common, type, ...makers[type] }, { ifName })
    const prevResult = await maker.add()
    const bandwidth = new Attachment(host, pod, { ...common, type: "bandwidth", prevResult, ...keys }, call)
    return new Limited(host, pod, maker, prevResult, bandwidth)
  }

  /** The name of the host's end of the container's interface. */
  get hostEnd(): string {
    const found = this.prevResult.interfaces.find(({ name }) => name.startsWith("veth"))
    if (!found) throw new Error("the interface has no end on the host")
    return found.name
  }

  /** The container's address and its gateway. */
  get addresses(): { pod: string; gateway: string } {
    const [ip] = this.prevResult.ips
    return { pod: ip?.address.split("/")[0] ?? "", gateway: ip?.gateway ?? "" }
  }

  /** The name of the Go plugin's ifb device. */
  get ifbName(): string {
    return upstreamName("lab", this.pod.name)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}

/**
 * Creates the links that macvlan, ipvlan and host-device need: veth pairs whose other ends are ports of a bridge with
 * the gateway's address.
 */
async function addUplinks(host: HostNamespace): Promise<void> {
  await host.exec("ip", ["link", "add", "lan", "up", "type", "bridge"])
  for (const [name, far] of [
    ["uplink", "card"],
    ["dev0", "far0"],
  ] as const) {
    await host.exec("ip", ["link", "add", name, "up", "type", "veth", "peer", "name", far])
    await host.exec("ip", ["link", "set", far, "up", "master", "lan"])
  }
}
