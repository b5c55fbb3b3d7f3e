import { join } from "node:path"
import { builtPlugins, type HostNamespace, newest } from "../lab/mod.ts"

/** What one plugin of a chain gets, but for what all of them get. */
export type PluginKeys = { readonly type: string } & Record<string, unknown>

/** A network of the storm: a chain of plugins, and what they are called with. */
export interface StormNetwork {
  readonly name: string
  /** `container` is a number that no other container has in the meantime. */
  readonly plugins: (container: number) => readonly PluginKeys[]
  /** The version of its configuration. */
  readonly cniVersion: string
  /** Where its plugins are: ours, or Debian's Go plugins, of which ADD alone is called. */
  readonly adder: string
  /** Whether a container may end with no DEL at all, so that GC is the one that cleans up. */
  readonly mayBeForgotten: boolean
}

const goPlugins = "/usr/lib/cni"

/** Bridges of the networks: `br-a` has two of them, and what the Go plugins connect. */
export const bridges = ["br-a", "br-b"] as const
/** The link that macvlan sits on. */
export const uplink = "uplink"
/** How many devices there are for host-device. */
export const deviceCount = 40

const pool = (subnet: string, keys: object = {}) => ({ type: "host-local", ranges: [[{ subnet }]], ...keys })
const defaultRoute = { routes: [{ dst: "0.0.0.0/0" }] }
const limits = { ingressRate: "80M", egressRate: "80M" }
const arpFilter = { "net.ipv4.conf.IFNAME.arp_filter": "1" }
const ports = (container: number) => ({
  runtimeConfig: {
    portMappings: [
      { hostPort: 20_000 + container, containerPort: 80, protocol: "tcp" },
      { hostPort: 20_000 + container, containerPort: 53, protocol: "udp" },
    ],
  },
})

const ours = { cniVersion: newest, adder: builtPlugins, mayBeForgotten: true } as const

/** The networks. All keep their leases in one data directory; the first and the last two share a bridge. */
export const stormNetworks: readonly StormNetwork[] = [
  {
    ...ours,
    name: "alpha",
    plugins: (container) => [
      {
        type: "bridge",
        bridge: "br-a",
        isDefaultGateway: true,
        ipMasq: true,
        hairpinMode: true,
        ipam: { type: "host-local", ranges: [[{ subnet: "10.40.0.0/16" }], [{ subnet: "fd00:40::/64" }]] },
      },
      { type: "tuning", sysctl: arpFilter, mtu: 1400, txQLen: 77 },
      { type: "portmap", ...ports(container) },
      { type: "firewall" }, // by firewalld where it runs
      { type: "bandwidth", ...limits },
    ],
  },
  {
    ...ours,
    name: "beta",
    plugins: (container) => [
      {
        type: "bridge",
        bridge: "br-b",
        isDefaultGateway: true,
        ipMasq: true,
        ipMasqBackend: "iptables",
        ipam: pool("10.41.0.0/16"),
      },
      { type: "portmap", backend: "iptables", ...ports(container) },
      { type: "firewall", backend: "iptables", ingressPolicy: "same-bridge" },
      { type: "tuning", promisc: true },
    ],
  },
  {
    ...ours,
    name: "gamma",
    plugins: (container) => [
      { type: "ptp", ipMasq: true, ipam: pool("10.42.0.0/16", defaultRoute) },
      { type: "firewall", backend: "nftables", ingressPolicy: "isolated" },
      { type: "portmap", ...ports(container) },
      { type: "bandwidth", ...limits, shapedSubnets: ["10.0.0.0/8"] },
    ],
  },
  {
    ...ours,
    name: "delta",
    plugins: (container) => [
      { type: "macvlan", master: uplink, ipam: pool("10.43.0.0/16", defaultRoute) },
      { type: "sbr" },
      { type: "tuning", sysctl: arpFilter, mac: macOf(container) },
      { type: "bandwidth", ...limits },
    ],
  },
  {
    ...ours,
    name: "epsilon",
    plugins: () => [
      { type: "tap", owner: 1000, ipam: pool("10.44.0.0/16", defaultRoute) },
      { type: "tuning", allmulti: true },
    ],
  },
  {
    ...ours,
    name: "zeta",
    // A virtual device is gone with its namespace; DEL alone gives it back.
    mayBeForgotten: false,
    plugins: (container) => [
      { type: "host-device", device: deviceOf(container), ipam: pool("10.45.0.0/16") },
      { type: "sbr" },
    ],
  },
  {
    ...ours,
    name: "eta",
    plugins: () => [
      { type: "bridge", bridge: "br-a", macspoofchk: true, portIsolation: true, ipam: pool("10.46.0.0/16") },
      { type: "firewall", backend: "nftables", ingressPolicy: "same-bridge" },
    ],
  },
  {
    // On alpha's bridge, with alpha's leases.
    name: "alpha",
    cniVersion: "1.0.0",
    adder: goPlugins,
    mayBeForgotten: false, // what they make says nothing of its owner
    plugins: (container) => [
      { type: "bridge", bridge: "br-a", ipMasq: true, ipam: pool("10.40.0.0/16") },
      { type: "portmap", ...ports(container) },
    ],
  },
]

/** A MAC that no other container has. */
function macOf(container: number): string {
  return `0a:00:00:00:${[container >> 8, container & 255].map((byte) => byte.toString(16).padStart(2, "0")).join(":")}`
}

/** The device of a container; there is one for the first ones only, see `mayJoin`. */
export function deviceOf(container: number): string {
  return `dev${container}`
}

/** Whether a network has what a container would get. */
export function mayJoin({ name }: StormNetwork, container: number): boolean {
  return name !== "zeta" || container < deviceCount
}

/** Gives the host the link for macvlan. */
export async function addUplink(host: HostNamespace): Promise<void> {
  await host.exec("ip", ["link", "add", uplink, "up", "type", "veth", "peer", "name", "card"])
  await host.exec("ip", ["link", "set", "card", "up"])
}

/** Gives the host the device of a container, where it has none: a virtual one may be deleted with a namespace. */
export async function addDevice(host: HostNamespace, container: number): Promise<void> {
  const name = deviceOf(container)
  const words = ["link", "add", name, "up", "type", "veth", "peer", "name", name.replace("dev", "far")]
  await host.tryExec("ip", words)
}

/** The executable of a plugin for a verb. */
export function executableOf(network: StormNetwork, plugin: PluginKeys, verb: string): string {
  return join(verb === "ADD" ? network.adder : builtPlugins, plugin.type)
}
