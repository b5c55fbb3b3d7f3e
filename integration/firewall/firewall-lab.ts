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

/** Waits until an address answers: the first packets of a new interface, or of a machine under load, may be lost. */
export async function expectAnswer(from: Namespace, address: string): Promise<void> {
  await waitFor(() => pingOnce(from, address), `${address} to answer ${from.name}`)
}

/** Expects answers from both addresses of a container. */
export async function expectReached(from: Namespace, to: FirewalledPod): Promise<void> {
  for (const address of [to.ip, to.ip6]) await expectAnswer(from, address)
}

/** A test for each backend, each on its own host. */
export function testEach(name: string, run: (lab: FirewallLab) => Promise<void>, timeoutMs?: number): void {
  testEachBackend(FirewallLab.create, name, run, timeoutMs)
}

/** Bridges with containers on a host whose neighbor has routes to them. */
export class FirewallLab extends RuleLab {
  static async create(backend: RuleBackend = ruleBackends[0]): Promise<FirewallLab> {
    const lab = new FirewallLab(await RuleLab.connected(backend))
    await routeToContainers(lab.outside)
    await lab.passBridgedPackets(backend.name !== "nftables")
    return lab
  }

  /** Whether the packet filters of IP see frames that a bridge forwards, as Kubernetes requires. */
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

  /** Connects a pod without firewall. */
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

  /** The rules of iptables' table `filter`, both families. */
  async iptables(): Promise<string> {
    return (await this.host.exec("sh", ["-c", "iptables-save -t filter; ip6tables-save -t filter"])).stdout
  }

  /** The rules of nf_tables. */
  async nftables(): Promise<string> {
    return (await this.host.exec("nft", ["list", "ruleset"])).stdout
  }
}

/** The settings of a container that differ from the others'. */
export interface PodKeys {
  /** The number: bridge `br1`, 10.1.0.0/16 and fd00:1::/64, network "net1". */
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
export class FirewalledPod extends ConnectedPod {
  readonly firewall: Attachment

  constructor(namespace: ContainerNamespace, link: Attachment, result: PluginResult, firewall: Attachment) {
    super(namespace, link, result)
    this.firewall = firewall
  }

  /** "net1/cnit-…/eth0": whose the rules are. */
  owner(network = "net1"): string {
    return `${network}/${this.namespace.name}/eth0`
  }

  /** portmap for the same container: maps port 8080 of the host to its port 80. */
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
