import {
  Attachment,
  type Change,
  ConnectedPod,
  type ContainerNamespace,
  type HostNamespace,
  type PluginOutput,
  type PluginResult,
  type RuleBackend,
  RuleLab,
  testEachBackend,
  uplink,
  waitForLocalRoutes,
} from "../lab/mod.ts"

export interface PortMapping {
  hostPort: number
  containerPort: number
  protocol: "tcp" | "udp" | "sctp"
  hostIP?: string
}

export const hostAddresses = { ...uplink, gateway: "10.22.0.1", gateway6: "fd00:22::1" }

/** Defines a test for each backend, each in a new lab. */
export function testEach(name: string, run: (lab: PortmapLab) => Promise<void>): void {
  testEachBackend(PortmapLab.create, name, run)
}

/** Containers on a host, and another machine that has no route to them. */
export class PortmapLab extends RuleLab {
  static async create(backend: RuleBackend): Promise<PortmapLab> {
    return new PortmapLab(await RuleLab.connected(backend))
  }

  /** Creates a lab on a host without an uplink, with the backend that its kernel supports. */
  static onPlainHost(host: HostNamespace): PortmapLab {
    return new PortmapLab({ host, outside: host, backend: { name: "iptables-legacy", keys: {}, iptables: "legacy" } })
  }

  /** Returns the packet filter's rules as the backend's own program prints them. */
  async rules(): Promise<string> {
    const command =
      this.backend.name === "nftables" ? ["nft", "list", "ruleset"] : ["sh", "-c", "iptables-save; ip6tables-save"]
    const [program = "", ...args] = command
    return (await this.host.exec(program, args)).stdout
  }

  /** Attaches a container to the bridge, with an IPv4 and an IPv6 address. */
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
    if (!keys.isIpv4Only) await waitForLocalRoutes(this.host, [`fd00:${number}::1`])
    const portmap = { cniVersion: "1.1.0", name, type: "portmap", ...this.backend.keys, prevResult: result }
    return new MappedPod(namespace, ifName, link, result, new Attachment(this.host, namespace, portmap, { ifName }))
  }
}

export interface PodKeys {
  namespace?: ContainerNamespace
  ifName?: string
  /** The network: "lab" has 10.22.0.0/16 and fd00:22::/64, "other" has 10.23.0.0/16 and fd00:23::/64. */
  name?: "lab" | "other"
  isIpv4Only?: boolean
}

/** A container with the attachment of portmap. */
export class MappedPod extends ConnectedPod {
  readonly ifName: string
  readonly portmap: Attachment
  mappings: readonly PortMapping[] = []

  constructor(
    namespace: ContainerNamespace,
    ifName: string,
    link: Attachment,
    result: PluginResult,
    portmap: Attachment,
  ) {
    super(namespace, link, result)
    this.ifName = ifName
    this.portmap = portmap
  }

  /** Runs ADD of portmap, which may fail. Later calls of `check` and `unmap` pass the same mappings. */
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

/** Reports whether a change is the guard of `route_localnet`. DEL keeps the guard if the setting was on before ADD. */
export function isLocalnetGuard({ line, sign, section }: Change): boolean {
  return sign === "+" && section === "nftables" && / ip cni_hostports( raw| localnet_guarded|$)/.test(line)
}
