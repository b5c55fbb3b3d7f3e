import { test } from "bun:test"
import {
  Attachment,
  type ContainerNamespace,
  chooseIptables,
  connect,
  HostNamespace,
  type IptablesKind,
  type Namespace,
  type PluginOutput,
  type PluginResult,
  pingOnce,
  succeed,
  waitFor,
} from "../lab/mod.ts"

/** The packet filters by which the same is to happen. */
export const firewallBackends = [
  { name: "nftables", keys: {}, iptables: "none" },
  { name: "iptables", keys: { backend: "iptables" }, iptables: "nf_tables" },
  { name: "iptables-legacy", keys: { backend: "iptables" }, iptables: "legacy" },
] as const satisfies FirewallBackend[]

export interface FirewallBackend {
  readonly name: string
  /** For the configuration. */
  readonly keys: object
  /** What the host has as `iptables`. */
  readonly iptables: IptablesKind
}

/** The other host's addresses; it knows the way to the containers. */
export const outside = { ip: "203.0.113.9", ip6: "2001:db8:113::9" }
/** This host's address on that side. */
export const hostIp = "203.0.113.1"

/** Has iptables drop what the host forwards, as docker does. */
export async function dropForwarded({ host }: FirewallLab): Promise<void> {
  for (const program of ["iptables", "ip6tables"]) await host.exec(program, ["-P", "FORWARD", "DROP"])
}

/** Waits until an address answers: the first packets of a new interface, or of a machine under load, may be lost. */
export async function expectAnswer(from: Namespace, address: string): Promise<void> {
  await waitFor(() => pingOnce(from, address), `${address} to answer ${from.name}`)
}

/** The same of both addresses of a container. */
export async function expectReached(from: Namespace, to: FirewalledPod): Promise<void> {
  for (const address of [to.ip, to.ip6]) await expectAnswer(from, address)
}

/** A test for each backend, each on a host of its own. */
export function testEach(name: string, run: (lab: FirewallLab) => Promise<void>, timeoutMs = 120_000): void {
  for (const backend of firewallBackends) {
    test(
      `${backend.name}: ${name}`,
      async () => {
        await using lab = await FirewallLab.create(backend)
        await run(lab)
      },
      timeoutMs,
    )
  }
}

/** A host with an uplink to another host, and bridges with containers. */
export class FirewallLab implements AsyncDisposable {
  readonly host: HostNamespace
  readonly outside: Namespace
  readonly backend: FirewallBackend

  private constructor(host: HostNamespace, outside: Namespace, backend: FirewallBackend) {
    this.host = host
    this.outside = outside
    this.backend = backend
  }

  static async create(backend: FirewallBackend = firewallBackends[0]): Promise<FirewallLab> {
    const host = await HostNamespace.create()
    await chooseIptables(host, backend.iptables)
    const other = await host.addContainer("outside")
    await connect(
      { namespace: host, link: "up0", addresses: [`${hostIp}/24`, "2001:db8:113::1/64"] },
      { namespace: other, link: "eth0", addresses: [`${outside.ip}/24`, `${outside.ip6}/64`] },
    )
    await other.exec("ip", ["route", "add", "10.0.0.0/8", "via", hostIp])
    await other.exec("ip", ["-6", "route", "add", "fd00::/8", "via", "2001:db8:113::1"])
    const lab = new FirewallLab(host, other, backend)
    await lab.passBridgedPackets(backend.name !== "nftables")
    return lab
  }

  /** Whether what a bridge forwards passes the packet filters of IP, as Kubernetes asks for. */
  async passBridgedPackets(isOn: boolean): Promise<void> {
    for (const name of ["iptables", "ip6tables"]) {
      await this.host.tryExec("sysctl", ["-w", `net.bridge.bridge-nf-call-${name}=${isOn ? 1 : 0}`])
    }
  }

  /** A container on a bridge, and firewall called for it. */
  async addPod(keys: PodKeys = {}): Promise<FirewalledPod> {
    const pod = await this.connectPod(keys)
    await succeed(pod.allow())
    return pod
  }

  /** The same without firewall. */
  async connectPod({ network = 1, name = `net${network}`, isIpv4Only, ...keys }: PodKeys = {}): Promise<FirewalledPod> {
    const namespace = keys.namespace ?? (await this.host.addContainer())
    // Networks on one bridge have addresses of their own.
    const start = name === `net${network}` ? {} : { rangeStart: `10.${network}.9.1` }
    const start6 = name === `net${network}` ? {} : { rangeStart: `fd00:${network}::901` }
    const ranges = [
      [{ subnet: `10.${network}.0.0/16`, ...start }],
      ...(isIpv4Only ? [] : [[{ subnet: `fd00:${network}::/64`, ...start6 }]]),
    ]
    const routes = keys.type === "ptp" ? { routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }] } : {}
    const common = { cniVersion: "1.1.0", name }
    const kind =
      keys.type === "ptp"
        ? { type: "ptp" }
        : { type: "bridge", bridge: `br${network}`, isDefaultGateway: true, hairpinMode: true }
    const link = new Attachment(this.host, namespace, {
      ...common,
      ...kind,
      ipam: { type: "host-local", ranges, ...routes },
    })
    const result = await link.add()
    const gateway = keys.type === "ptp" ? undefined : `fd00:${network}::1`
    if (gateway && !isIpv4Only) await this.isUsable(gateway)
    const firewall = {
      ...common,
      type: "firewall",
      ...this.backend.keys,
      ...(keys.policy && { ingressPolicy: keys.policy }),
      ...keys.firewall,
      prevResult: result,
    }
    return new FirewalledPod(namespace, link, result, new Attachment(this.host, namespace, firewall))
  }

  /** The kernel takes a bridge's IPv6 address into use when it has noticed that the first port has a carrier. */
  private async isUsable(address: string): Promise<void> {
    const isThere = async () =>
      (await this.host.json<{ dst: string }[]>("ip", ["-6", "-j", "route", "show", "table", "local"])).some(
        ({ dst }) => dst === address,
      )
    await waitFor(isThere, `${address} is usable`)
  }

  /** The rules of iptables' table `filter`, both families. */
  async iptables(): Promise<string> {
    return (await this.host.exec("sh", ["-c", "iptables-save -t filter; ip6tables-save -t filter"])).stdout
  }

  /** The rules of nf_tables. */
  async nftables(): Promise<string> {
    return (await this.host.exec("nft", ["list", "ruleset"])).stdout
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}

/** How a container differs from the others. */
export interface PodKeys {
  /** Its number: bridge `br1`, 10.1.0.0/16 and fd00:1::/64, network "net1". */
  network?: number
  name?: string
  type?: "bridge" | "ptp"
  policy?: "open" | "same-bridge" | "isolated"
  /** More keys of firewall. */
  firewall?: object
  namespace?: ContainerNamespace
  isIpv4Only?: boolean
}

/** A container, and firewall as a runtime calls it. */
export class FirewalledPod {
  readonly namespace: ContainerNamespace
  /** Of bridge or ptp. */
  readonly link: Attachment
  readonly result: PluginResult
  readonly firewall: Attachment

  constructor(namespace: ContainerNamespace, link: Attachment, result: PluginResult, firewall: Attachment) {
    this.namespace = namespace
    this.link = link
    this.result = result
    this.firewall = firewall
  }

  /** "10.1.0.2" */
  get ip(): string {
    return this.result.ips[0]?.address.replace(/\/.*/, "") ?? ""
  }

  get ip6(): string {
    return this.result.ips[1]?.address.replace(/\/.*/, "") ?? ""
  }

  /** "net1/cnit-…/eth0": whose the rules are. */
  owner(network = "net1"): string {
    return `${network}/${this.namespace.name}/eth0`
  }

  /** portmap for the same container: port 8080 of the host leads to its port 80. */
  portmap({ host }: FirewallLab): Attachment {
    const { cniVersion, name } = this.firewall.config
    const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }]
    const config = { cniVersion, name, type: "portmap", runtimeConfig: { portMappings }, prevResult: this.result }
    return new Attachment(host, this.namespace, config)
  }

  allow(keys: object = {}): Promise<PluginOutput> {
    return this.firewall.run("ADD", keys)
  }

  /** DEL of both, in the order of a runtime's. */
  async remove(): Promise<void> {
    await this.firewall.del()
    await this.link.del()
  }
}
