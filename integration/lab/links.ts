import type { PluginResult } from "./attachment.ts"
import type { HostNamespace } from "./host-namespace.ts"
import type { ContainerNamespace, Namespace } from "./namespace.ts"
import { waitFor } from "./wait-for.ts"

/** The fields of a link in `ip -d -j link show` that tests read. */
export interface KernelLink {
  ifname: string
  address: string
  mtu: number
  txqlen: number
  flags: string[]
  operstate: string
  master?: string
  ifalias?: string
  linkinfo?: {
    info_kind: string
    info_data?: { vlan_filtering: number }
    info_slave_data?: { hairpin: boolean; isolated: boolean }
  }
}

/** Returns the link with this name. Throws if the link does not exist. */
export async function linkOf(where: Namespace, name: string): Promise<KernelLink> {
  const [link] = await where.json<KernelLink[]>("ip", ["-d", "-j", "link", "show", "dev", name])
  if (!link) throw new Error(`no link ${name}`)
  return link
}

/** Returns the addresses of a link, like "10.22.0.2/16", without those that the kernel created by itself. */
export async function addressesOf(where: Namespace, name: string): Promise<string[]> {
  type Listed = { addr_info: { local: string; prefixlen: number; scope: string }[] }
  const [link] = await where.json<Listed[]>("ip", ["-j", "address", "show", "dev", name])
  return (link?.addr_info ?? [])
    .filter(({ scope, local }) => scope === "global" || local === "fe80::1")
    .map(({ local, prefixlen }) => `${local}/${prefixlen}`)
}

/** Returns the names of all links of a namespace, including `lo`. */
export async function linkNames(where: Namespace): Promise<string[]> {
  const links = await where.json<{ ifname: string }[]>("ip", ["-j", "link", "show"])
  return links.map(({ ifname }) => ifname)
}

/** Returns a bridge port's VLANs as bridge(8) shows them, with ranges: "100 PVID Egress Untagged", "200-210". */
export async function vlansOf(host: HostNamespace, port: string): Promise<string[]> {
  type Listed = { ifname: string; vlans: { vlan: number; vlanEnd?: number; flags?: string[] }[] }
  const ports = await host.json<Listed[]>("bridge", ["-j", "-compressvlans", "vlan", "show"])
  const vlans = ports.find(({ ifname }) => ifname === port)?.vlans ?? []
  return vlans.map(({ vlan, vlanEnd, flags = [] }) => [vlanEnd ? `${vlan}-${vlanEnd}` : vlan, ...flags].join(" "))
}

/** Returns the name of the host's end of a container's veth pair, from the plugin's result. */
export function portOf({ interfaces }: PluginResult): string {
  return interfaces[1]?.name ?? ""
}

/** Changes the MAC address of a container's `eth0`, as a process in the container may do. */
export async function changeMac(pod: ContainerNamespace, mac: string): Promise<void> {
  await pod.exec("ip", ["link", "set", "dev", "eth0", "address", mac])
}

/** Waits until the kernel has added the local routes of the IPv6 addresses among `addresses`, which takes some time. */
export async function waitForLocalRoutes(where: Namespace, addresses: readonly string[]): Promise<void> {
  for (const address of addresses.filter((each) => each.includes(":"))) {
    const bare = address.replace(/\/.*/, "")
    await waitFor(async () => {
      const { stdout } = await where.exec("ip", ["-6", "route", "show", "table", "all", "type", "local", bare])
      return stdout !== ""
    }, `the local route of ${bare}`)
  }
}
