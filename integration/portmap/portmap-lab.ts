import { test } from "bun:test"
import {
  Attachment,
  type Change,
  type ContainerNamespace,
  chooseIptables,
  connect,
  HostNamespace,
  type IptablesKind,
  type Namespace,
  type PluginOutput,
  type PluginResult,
  waitFor,
} from "../lab/mod.ts"

/** The ways of mapping ports: the same cases hold for each. */
export const portmapBackends = [
  { name: "nftables", keys: {}, iptables: "none" },
  { name: "iptables", keys: { backend: "iptables" }, iptables: "nf_tables" },
  { name: "iptables-legacy", keys: { backend: "iptables" }, iptables: "legacy" },
] as const satisfies PortmapBackend[]

export interface PortmapBackend {
  readonly name: "nftables" | "iptables" | "iptables-legacy"
  /** For the configuration. */
  readonly keys: object
  /** What the host has as `iptables`. */
  readonly iptables: IptablesKind
}

/** A mapping as runtimes write it. */
export interface PortMapping {
  hostPort: number
  containerPort: number
  protocol: "tcp" | "udp" | "sctp"
  hostIP?: string
}

/** The host's addresses in the lab: of its uplink, and of the bridge that the containers are on. */
export const hostAddresses = { ip: "203.0.113.1", ip6: "2001:db8:113::1", gateway: "10.22.0.1", gateway6: "fd00:22::1" }

/** The other host's. */
export const outsideAddresses = { ip: "203.0.113.9", ip6: "2001:db8:113::9" }

/** A test for each way of mapping, each on a lab of its own. */
export function testEach(name: string, run: (lab: PortmapLab) => Promise<void>): void {
  for (const backend of portmapBackends) {
    test(`${backend.name}: ${name}`, async () => {
      await using lab = await PortmapLab.create(backend)
      await run(lab)
    })
  }
}

/** A host with an uplink to another host that knows no way to the containers. */
export class PortmapLab implements AsyncDisposable {
  readonly host: HostNamespace
  readonly outside: Namespace
  readonly backend: PortmapBackend

  private constructor(host: HostNamespace, outside: Namespace, backend: PortmapBackend) {
    this.host = host
    this.outside = outside
    this.backend = backend
  }

  static async create(backend: PortmapBackend): Promise<PortmapLab> {
    const host = await HostNamespace.create()
    await chooseIptables(host, backend.iptables)
    const outside = await host.addContainer("outside")
    const { ip, ip6 } = hostAddresses
    await connect(
      { namespace: host, link: "up0", addresses: [`${ip}/24`, `${ip6}/64`] },
      {
        namespace: outside,
        link: "eth0",
        addresses: [`${outsideAddresses.ip}/24`, `${outsideAddresses.ip6}/64`],
      },
    )
    return new PortmapLab(host, outside, backend)
  }

  /** A lab on a host that has no uplink, with the backend that its kernel has. */
  static onPlainHost(host: HostNamespace): PortmapLab {
    return new PortmapLab(host, host, { name: "iptables-legacy", keys: {}, iptables: "legacy" })
  }

  /** The packet filter's rules as the backend's own program prints them. */
  async rules(): Promise<string> {
    const command =
      this.backend.name === "nftables" ? ["nft", "list", "ruleset"] : ["sh", "-c", "iptables-save; ip6tables-save"]
    const [program = "", ...args] = command
    return (await this.host.exec(program, args)).stdout
  }

  /** The kernel takes a bridge's IPv6 address into use when it has noticed that the first port has a carrier. */
  private async gatewayIsUsable(bridge: string, address: string): Promise<void> {
    const routes = ["-6", "-j", "route", "show", "table", "local", "dev", bridge]
    const isThere = async () =>
      (await this.host.json<{ dst: string }[]>("ip", routes)).some(({ dst }) => dst === address)
    await waitFor(isThere, `${address} is usable on ${bridge}`)
  }

  /** A container on the bridge, with an IPv4 and an IPv6 address. */
  async addPod(keys: PodKeys = {}): Promise<MappedPod> {
    const { ifName = "eth0", name = "lab" } = keys
    const namespace = keys.namespace ?? (await this.host.addContainer())
    const number = name === "lab" ? 22 : 23
    const ranges = [
      [{ subnet: `10.${number}.0.0/16` }],
      ...(keys.isIpv4Only ? [] : [[{ subnet: `fd00:${number}::/64` }]]),
    ]
    const config = {
      cniVersion: "1.1.0",
      name,
      type: "bridge",
      bridge: `br-${name}`,
      isDefaultGateway: ifName === "eth0",
      isGateway: true,
      hairpinMode: true,
      ipam: { type: "host-local", ranges },
    }
    const link = new Attachment(this.host, namespace, config, { ifName })
    const result = await link.add()
    if (!keys.isIpv4Only) await this.gatewayIsUsable(`br-${name}`, `fd00:${number}::1`)
    const portmap = { cniVersion: "1.1.0", name, type: "portmap", ...this.backend.keys, prevResult: result }
    return new MappedPod(namespace, ifName, link, result, new Attachment(this.host, namespace, portmap, { ifName }))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}

/** How a container differs from the others. */
export interface PodKeys {
  namespace?: ContainerNamespace
  ifName?: string
  /** The network: "lab" is 10.22.0.0/16 and fd00:22::/64, another one 23. */
  name?: "lab" | "other"
  isIpv4Only?: boolean
}

/** A container, and portmap as a runtime calls it for the container's interface. */
export class MappedPod {
  readonly namespace: ContainerNamespace
  readonly ifName: string
  /** The interface plugin's attachment. */
  readonly link: Attachment
  /** What the interface plugin has answered. */
  readonly result: PluginResult
  readonly portmap: Attachment
  mappings: readonly PortMapping[] = []

  constructor(
    namespace: ContainerNamespace,
    ifName: string,
    link: Attachment,
    result: PluginResult,
    portmap: Attachment,
  ) {
    this.namespace = namespace
    this.ifName = ifName
    this.link = link
    this.result = result
    this.portmap = portmap
  }

  /** "10.22.0.2" */
  get ip(): string {
    return this.result.ips[0]?.address.replace(/\/.*/, "") ?? ""
  }

  get ip6(): string {
    return this.result.ips[1]?.address.replace(/\/.*/, "") ?? ""
  }

  /** ADD of portmap, with any answer; DEL and CHECK are told the same mappings from then on. */
  map(mappings: readonly PortMapping[], keys: object = {}, call: object = {}): Promise<PluginOutput> {
    this.mappings = mappings
    return this.portmap.run("ADD", { ...this.#keys(), ...keys }, call)
  }

  check(keys: object = {}, call: object = {}): Promise<PluginOutput> {
    return this.portmap.run("CHECK", { ...this.#keys(), ...keys }, call)
  }

  unmap(keys: object = {}, call: object = {}): Promise<PluginOutput> {
    return this.portmap.run("DEL", { ...this.#keys(), ...keys }, call)
  }

  #keys(): object {
    return { runtimeConfig: { portMappings: this.mappings } }
  }
}

/** Whether a change is the guard that DEL and GC leave where route_localnet is on: it may be another program's setting. */
export function isLocalnetGuard({ line, sign, section }: Change): boolean {
  return sign === "+" && section === "nftables" && / ip cni_hostports( raw| localnet_guarded|$)/.test(line)
}
