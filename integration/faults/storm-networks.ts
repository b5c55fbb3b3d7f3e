import { join } from "node:path"
import { builtPlugins, type HostNamespace, newest } from "../lab/mod.ts"

/** A plugin's configuration without the keys of the network. */
export type PluginKeys = { readonly type: string } & Record<string, unknown>

/** A network of this test: a chain of plugins with their configuration. */
export interface StormNetwork {
  readonly name: string
  /** Returns the plugins for a container. `container` is a number that no other existing container has. */
  readonly plugins: (container: number) => readonly PluginKeys[]
  /** The version of the configuration. */
  readonly cniVersion: string
  /** The directory of the plugins that run ADD: those of this suite, or Debian's Go plugins. */
  readonly adder: string
  /** Whether the runtime may forget a container without DEL, so that only GC cleans up. */
  readonly mayBeForgotten: boolean
}

const goPlugins = "/usr/lib/cni"

/** The bridges of the networks. Three networks share `br-a`, one of which uses the Go plugins. */
export const bridges = ["br-a", "br-b"] as const
/** The parent link of macvlan interfaces. */
export const uplink = "uplink"
/** The number of devices for host-device. */
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

/** The networks, all of which keep their leases in one data directory. */
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
      { type: "firewall" }, // with firewalld if it runs
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
    // A virtual device is deleted with its namespace, so only DEL can return it.
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
    // The same network as "alpha", with the same bridge and leases.
    name: "alpha",
    cniVersion: "1.0.0",
    adder: goPlugins,
    mayBeForgotten: false, // objects of the Go plugins have no owner mark
    plugins: (container) => [
      { type: "bridge", bridge: "br-a", ipMasq: true, ipam: pool("10.40.0.0/16") },
      { type: "portmap", ...ports(container) },
    ],
  },
]

/** Returns the MAC address of a container, which no other container has. */
function macOf(container: number): string {
  return `0a:00:00:00:${[container >> 8, container & 255].map((byte) => byte.toString(16).padStart(2, "0")).join(":")}`
}

/** Returns the name of a container's device. Only the first `deviceCount` containers have a device. */
export function deviceOf(container: number): string {
  return `dev${container}`
}

/** Reports whether a network has everything that the container needs, such as a free device. */
export function mayJoin({ name }: StormNetwork, container: number): boolean {
  return name !== "zeta" || container < deviceCount
}

/** Creates the parent link for macvlan. */
export async function addUplink(host: HostNamespace): Promise<void> {
  await host.exec("ip", ["link", "add", uplink, "up", "type", "veth", "peer", "name", "card"])
  await host.exec("ip", ["link", "set", "card", "up"])
}

/**
 * Creates the device of a container if it is missing, because the kernel deletes a virtual device with its namespace.
 */
export async function addDevice(host: HostNamespace, container: number): Promise<void> {
  const name = deviceOf(container)
  const words = ["link", "add", name, "up", "type", "veth", "peer", "name", name.replace("dev", "far")]
  await host.tryExec("ip", words)
}

/** Returns the path of the plugin that a runtime executes for a verb. */
export function executableOf(network: StormNetwork, plugin: PluginKeys, verb: string): string {
  return join(verb === "ADD" ? network.adder : builtPlugins, plugin.type)
}
