import { expect } from "bun:test"
import {
  Attachment,
  askEcho,
  type ContainerNamespace,
  chooseIptables,
  connectOutside,
  EchoPeer,
  HostNamespace,
  type IptablesKind,
  outside,
  type PluginCall,
  routeToContainers,
  type Snapshot,
  takeSnapshot,
  uplink,
  waitFor,
} from "../lab/mod.ts"

/** The keys of a bridge network that masquerades both families. */
export const dualStack = {
  isDefaultGateway: true,
  ipMasq: true,
  ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }], [{ subnet: "fd00:22::/64" }]] },
}

/** Creates a host with an uplink to a machine, the internet, that has no route to the containers. */
export async function connectedHost() {
  const host = await HostNamespace.create()
  return { host, internet: await connectOutside(host, "internet") }
}

/** Creates a host with an uplink to a machine, the internet, that has routes to the containers. */
export async function createHost(kind: IptablesKind) {
  const { host, internet } = await connectedHost()
  await chooseIptables(host, kind)
  await routeToContainers(internet)
  return { host, internet }
}

/** Creates the objects that stay after every attachment: the bridge, forwarding, and empty tables of iptables. */
export async function settle(
  host: HostNamespace,
  config: Record<string, unknown>,
  suite: Partial<PluginCall> = {},
): Promise<Snapshot> {
  const attachment = new Attachment(host, await host.addContainer(), config, suite)
  await attachment.add()
  const isSettled = async () =>
    (await host.exec("ip", ["-6", "address", "show", "tentative", "scope", "global"])).stdout === ""
  await waitFor(isSettled, "no address is being detected any more")
  await attachment.del()
  return takeSnapshot(host)
}

export function twoInterfaces(host: HostNamespace, pod: ContainerNamespace, config: Record<string, unknown>) {
  const attach = (ifName: string) => new Attachment(host, pod, config, { ifName })
  return [attach("eth0"), attach("net1")] as const
}

/** Returns the source addresses that the internet sees for a TCP connection and a datagram, for each family. */
export async function seenBy(internet: ContainerNamespace, pod: ContainerNamespace): Promise<string[]> {
  await using peer = await EchoPeer.start(internet)
  const seen = new Set<string>()
  for (const address of Object.values(outside)) {
    for (const transport of ["tcp", "udp"] as const) {
      const { from } = await askEcho(pod, { transport, address, port: peer.port })
      seen.add(from.address.replace("::ffff:", ""))
    }
  }
  return [...seen]
}

/** The result of `seenBy` for a masqueraded container. */
export const hostAddresses = Object.values(uplink)

/** Two networks with the same first address and different prefix lengths. */
export const nested = {
  large: {
    subnets: ["10.0.0.0/16", "fd00:22::/48"],
    gateways: ["10.0.5.1", "fd00:22:0:5::1"],
    addresses: ["10.0.5.2", "fd00:22:0:5::2"],
  },
  small: {
    subnets: ["10.0.0.0/24", "fd00:22::/64"],
    gateways: ["10.0.0.1", "fd00:22::1"],
    addresses: ["10.0.0.2", "fd00:22::2"],
  },
} as const

/** Returns the `ipam` key of network `name`. Its pool begins with the container's address. */
export function nestedIpam(name: keyof typeof nested) {
  const { subnets, gateways, addresses } = nested[name]
  const ranges = subnets.map((subnet, at) => [{ subnet, gateway: gateways[at], rangeStart: addresses[at] }])
  return { type: "host-local", ranges, routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }] }
}

/**
 * Checks which source addresses the containers of both networks see. The large network's container sees the host's
 * address, because the container is outside the small network. The small network's container sees the real address.
 */
export async function expectNestedApart(large: ContainerNamespace, small: ContainerNamespace): Promise<void> {
  for (const { from, to, address, seen } of [
    { from: small, to: large, address: nested.large.addresses, seen: nested.large.gateways },
    { from: large, to: small, address: nested.small.addresses, seen: nested.large.addresses },
  ]) {
    await using peer = await EchoPeer.start(to)
    const sources = new Set<string>()
    for (const one of address) {
      const { from: source } = await askEcho(from, { transport: "tcp", address: one, port: peer.port })
      sources.add(source.address)
    }
    expect([...sources]).toEqual([...seen])
  }
}
