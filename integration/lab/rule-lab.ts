import { test } from "bun:test"
import type { Attachment, PluginResult } from "./attachment.ts"
import { connect } from "./cable.ts"
import { chooseIptables, HostNamespace, type IptablesKind } from "./host-namespace.ts"
import type { ContainerNamespace, Namespace } from "./namespace.ts"

/** The packet filters to which a plugin can write its rules. `testEachBackend` runs a case on each packet filter. */
export const ruleBackends = [
  { name: "nftables", keys: {}, iptables: "none" },
  { name: "iptables", keys: { backend: "iptables" }, iptables: "nf_tables" },
  { name: "iptables-legacy", keys: { backend: "iptables" }, iptables: "legacy" },
] as const satisfies RuleBackend[]

export interface RuleBackend {
  readonly name: "nftables" | "iptables" | "iptables-legacy"
  /** Configuration keys that choose this packet filter. */
  readonly keys: object
  readonly iptables: IptablesKind
}

export const uplink = { ip: "203.0.113.1", ip6: "2001:db8:113::1" }
export const outside = { ip: "203.0.113.9", ip6: "2001:db8:113::9" }

/** Connects a host through its uplink `up0` to another machine, which has no route to the containers. */
export async function connectOutside(host: HostNamespace, name = "outside"): Promise<ContainerNamespace> {
  const other = await host.addContainer(name)
  await connect(
    { namespace: host, link: "up0", addresses: [`${uplink.ip}/24`, `${uplink.ip6}/64`] },
    { namespace: other, link: "eth0", addresses: [`${outside.ip}/24`, `${outside.ip6}/64`] },
  )
  return other
}

/** Adds routes on the other machine that lead to the containers. */
export async function routeToContainers(other: Namespace): Promise<void> {
  await other.exec("ip", ["route", "add", "10.0.0.0/8", "via", uplink.ip])
  await other.exec("ip", ["-6", "route", "add", "fd00::/8", "via", uplink.ip6])
}

/** A host with one kind of packet filter, connected by an uplink to another machine. */
export class RuleLab implements AsyncDisposable {
  readonly host: HostNamespace
  readonly outside: Namespace
  readonly backend: RuleBackend

  protected constructor({ host, outside, backend }: Pick<RuleLab, "host" | "outside" | "backend">) {
    this.host = host
    this.outside = outside
    this.backend = backend
  }

  /** Creates a host, chooses its packet filter and connects it to another machine. */
  protected static async connected(backend: RuleBackend) {
    const host = await HostNamespace.create()
    await chooseIptables(host, backend.iptables)
    return { host, outside: await connectOutside(host), backend }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}

/** Defines one test for each packet filter. `create` makes a new lab for each test. */
export function testEachBackend<L extends RuleLab>(
  create: (backend: RuleBackend) => Promise<L>,
  name: string,
  run: (lab: L) => Promise<void>,
  timeoutMs?: number,
): void {
  for (const backend of ruleBackends) {
    const once = async () => {
      await using lab = await create(backend)
      await run(lab)
    }
    test(`${backend.name}: ${name}`, once, timeoutMs)
  }
}

/** A container with an interface that an interface plugin created. */
export class ConnectedPod {
  readonly namespace: ContainerNamespace
  readonly link: Attachment
  readonly result: PluginResult

  constructor(namespace: ContainerNamespace, link: Attachment, result: PluginResult) {
    this.namespace = namespace
    this.link = link
    this.result = result
  }

  get ip(): string {
    return this.#addressAt(0)
  }

  get ip6(): string {
    return this.#addressAt(1)
  }

  #addressAt(at: number): string {
    return this.result.ips[at]?.address.replace(/\/.*/, "") ?? ""
  }
}
