import {
  Attachment,
  ConnectedPod,
  type ContainerNamespace,
  type Namespace,
  type PluginOutput,
  type PluginResult,
  pingOnce,
  type RuleBackend,
  RuleLab,
  routeToContainers,
  ruleBackends,
  succeed,
  testEachBackend,
  waitFor,
  waitForLocalRoutes,
} from "../lab/mod.ts"

/** Makes iptables drop forwarded packets, as docker does. */
export async function dropForwarded({ host }: FirewallLab): Promise<void> {
  for (const program of ["iptables", "ip6tables"]) await host.exec(program, ["-P", "FORWARD", "DROP"])
}

/** Waits until an address answers, because a new interface or a busy machine may lose the first packets. */
export async function expectAnswer(from: Namespace, address: string): Promise<void> {
  await waitFor(() => pingOnce(from, address), `${address} to answer ${from.name}`)
}

/** Waits until both addresses of a container answer. */
export async function expectReached(from: Namespace, to: FirewalledPod): Promise<void> {
  for (const address of [to.ip, to.ip6]) await expectAnswer(from, address)
}

/** Defines a test for each backend, each on a new host. */
export function testEach(name: string, run: (lab: FirewallLab) => Promise<void>, timeoutMs?: number): void {
  testEachBackend(FirewallLab.create, name, run, timeoutMs)
}

/** Bridges with containers on a host, and another machine that has routes to them. */
export class FirewallLab extends RuleLab {
  static async create(backend: RuleBackend = ruleBackends[0]): Promise<FirewallLab> {
    const lab = new FirewallLab(await RuleLab.connected(backend))
    await routeToContainers(lab.outside)
    await lab.passBridgedPackets(backend.name !== "nftables")
    return lab
  }

  /** Sets whether frames between ports of a bridge pass the packet filter for IP, as Kubernetes requires. */
  async passBridgedPackets(isOn: boolean): Promise<void> {
    for (const name of ["iptables", "ip6tables"]) {
      await this.host.tryExec("sysctl", ["-w", `net.bridge.bridge-nf-call-${name}=${isOn ? 1 : 0}`])
    }
  }

  /** Attaches a container to a bridge and runs ADD of firewall for it. */
  async addPod(keys: PodKeys = {}): Promise<FirewalledPod> {
    const pod = await this.connectPod(keys)
    await succeed(pod.allow())
    return pod
  }

  /** Attaches a container to a bridge without firewall. */
  async connectPod({ network = 1, name = `net${network}`, isIpv4Only, ...keys }: PodKeys = {}): Promise<FirewalledPod> {
    const namespace = keys.namespace ?? (await this.host.addContainer())
    // Networks on the same bridge use different addresses.
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
    if (gateway && !isIpv4Only) await waitForLocalRoutes(this.host, [gateway])
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

  /** Returns the rules of iptables' table `filter` for both families. */
  async iptables(): Promise<string> {
    return (await this.host.exec("sh", ["-c", "iptables-save -t filter; ip6tables-save -t filter"])).stdout
  }

  /** Returns the rules of nf_tables. */
  async nftables(): Promise<string> {
    return (await this.host.exec("nft", ["list", "ruleset"])).stdout
  }
}

/** The properties of a container that differ from the defaults. */
export interface PodKeys {
  /** The number of the network: 1 has bridge `br1`, 10.1.0.0/16, fd00:1::/64 and the name "net1". */
  network?: number
  name?: string
  type?: "bridge" | "ptp"
  policy?: "open" | "same-bridge" | "isolated"
  /** Further configuration keys of firewall. */
  firewall?: object
  namespace?: ContainerNamespace
  isIpv4Only?: boolean
}

/** A container with the attachment of firewall. */
export class FirewalledPod extends ConnectedPod {
  readonly firewall: Attachment

  constructor(namespace: ContainerNamespace, link: Attachment, result: PluginResult, firewall: Attachment) {
    super(namespace, link, result)
    this.firewall = firewall
  }

  /** Returns the owner in the container's rules: "net1/cnit-…/eth0". */
  owner(network = "net1"): string {
    return `${network}/${this.namespace.name}/eth0`
  }

  /** Returns the attachment of portmap for the same container, which maps port 8080 of the host to port 80. */
  portmap({ host }: FirewallLab): Attachment {
    const { cniVersion, name } = this.firewall.config
    const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }]
    const config = { cniVersion, name, type: "portmap", runtimeConfig: { portMappings }, prevResult: this.result }
    return new Attachment(host, this.namespace, config)
  }

  allow(keys: object = {}): Promise<PluginOutput> {
    return this.firewall.run("ADD", keys)
  }

  /** Runs DEL of firewall and of the interface plugin, in a runtime's order. */
  async remove(): Promise<void> {
    await this.firewall.del()
    await this.link.del()
  }
}
