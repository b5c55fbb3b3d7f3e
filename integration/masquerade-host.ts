import { Attachment } from "./attachment.ts"
import { connect } from "./cable.ts"
import type { ContainerNamespace } from "./container-namespace.ts"
import { askEcho, EchoPeer } from "./echo-peer.ts"
import { HostNamespace } from "./host-namespace.ts"
import { chooseIptables, type IptablesKind } from "./iptables-kind.ts"
import type { PluginCall } from "./run-plugin.ts"
import { type Snapshot, takeSnapshot } from "./snapshot/snapshot.ts"
import { waitFor } from "./wait-for.ts"

/** Keys of a bridge network with masquerade for both families. */
export const dualStack = {
  isDefaultGateway: true,
  ipMasq: true,
  ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }], [{ subnet: "fd00:22::/64" }]] },
}

/** A host with an uplink to an internet that knows a way back to the containers. */
export async function createHost(kind: IptablesKind) {
  const host = await HostNamespace.create()
  await chooseIptables(host, kind)
  const internet = await host.addContainer("internet")
  await connect(
    { namespace: host, link: "up0", addresses: ["203.0.113.1/24", "2001:db8:113::1/64"] },
    { namespace: internet, link: "eth0", addresses: ["203.0.113.9/24", "2001:db8:113::9/64"] },
  )
  await internet.exec("ip", ["route", "add", "10.0.0.0/8", "via", "203.0.113.1"])
  await internet.exec("ip", ["-6", "route", "add", "fd00::/8", "via", "2001:db8:113::1"])
  return { host, internet }
}

/** Brings the host to where every attachment leaves it: bridge, forwarding, and the empty tables that iptables keeps. */
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

/** A container that is attached to one network twice. */
export function twoInterfaces(host: HostNamespace, pod: ContainerNamespace, config: Record<string, unknown>) {
  const attach = (ifName: string) => new Attachment(host, pod, config, { ifName })
  return [attach("eth0"), attach("net1")] as const
}

/** Who the internet sees behind a connection over TCP and a datagram, for both families: one address for each. */
export async function seenBy(internet: ContainerNamespace, pod: ContainerNamespace): Promise<string[]> {
  await using peer = await EchoPeer.start(internet)
  const seen = new Set<string>()
  for (const address of ["203.0.113.9", "2001:db8:113::9"]) {
    for (const transport of ["tcp", "udp"] as const) {
      const { from } = await askEcho(pod, { transport, address, port: peer.port })
      seen.add(from.address.replace("::ffff:", ""))
    }
  }
  return [...seen]
}

/** What `seenBy` answers for a container that is masqueraded. */
export const hostAddresses = ["203.0.113.1", "2001:db8:113::1"]
