import { pluginNames } from "../../suite/plugins.ts"
import type { Feature } from "./features.ts"
import { addDevices, addUplink, gatewayBridge, labNetwork, pool, subnetFileOf, writeSubnetFiles } from "./networks.ts"
import type { InterfacePlugin, Plugin, Role } from "./plugin-row.ts"

/** The plugins by name. The shared cases run for every plugin of this table. */
const plugins: Readonly<Record<string, Plugin>> = {
  bridge: {
    role: "interface",
    hasHostEnd: true,
    masquerades: true,
    ...labNetwork("bridge", { bridge: "br-lab" }),
    keys: ({ network }) => ({ ...gatewayBridge(network), ipMasq: true }),
    everything: { isDefaultGateway: true, ipMasq: true, macspoofchk: true },
    dualStack: { ...labNetwork("bridge").dualStack, isDefaultGateway: true },
    defaultRoute: { keys: { isDefaultGateway: true }, answered: { dst: "0.0.0.0/0", gw: "10.22.0.1" } },
    neighbour: { name: "lab-2" }, // on the same bridge
    stranger: { name: "other", bridge: "br-other" },
  },
  ptp: {
    role: "interface",
    hasHostEnd: true,
    masquerades: true,
    ...labNetwork("ptp"),
    keys: (place) => ({ ...labNetwork("ptp").keys(place), ipMasq: true }),
    everything: { ...labNetwork("ptp").dualStack, ipMasq: true },
  },
  macvlan: {
    role: "interface",
    needs: ["macvlan"],
    hasHostEnd: false,
    masquerades: false,
    setUp: addUplink,
    ...labNetwork("macvlan", { master: "uplink" }),
    everything: { ...labNetwork("macvlan").dualStack, mode: "private", mtu: 1400 },
  },
  ipvlan: {
    role: "interface",
    needs: ["ipvlan"],
    hasHostEnd: false,
    masquerades: false,
    setUp: addUplink,
    ...labNetwork("ipvlan", { master: "uplink" }),
    everything: { ...labNetwork("ipvlan").dualStack, flag: "private", mtu: 1400 },
    like: "macvlan",
  },
  vlan: {
    role: "interface",
    needs: ["vlan"],
    hasHostEnd: false,
    masquerades: false,
    setUp: addUplink,
    ...labNetwork("vlan", { master: "uplink" }),
    keys: (place) => ({ ...labNetwork("vlan", { master: "uplink" }).keys(place), vlanId: place.port - 8000 }), // a different VLAN for each attachment
    everything: { ...labNetwork("vlan").dualStack, mtu: 1400 },
    like: "macvlan",
  },
  "host-device": {
    role: "device",
    setUp: addDevices,
    keys: ({ network, port }) => ({ device: `dev${port}`, ipam: pool(network) }),
  },
  dummy: {
    role: "interface",
    needs: ["dummy"],
    hasHostEnd: false,
    masquerades: false,
    ...labNetwork("dummy"),
    everything: { ...labNetwork("dummy").dualStack, mtu: 1400, mac: "0a:00:00:00:00:01" },
    like: "macvlan",
  },
  tap: {
    role: "interface",
    needs: ["tap"],
    devices: ["/dev/net"],
    hasHostEnd: false,
    masquerades: false,
    ...labNetwork("tap"),
    keys: (place) => ({ ...labNetwork("tap").keys(place), owner: 1000 }),
    everything: {
      ...labNetwork("tap").dualStack,
      mtu: 1400,
      owner: 1000,
      group: 1000,
      multiQueue: true,
      vnetHdr: true,
    },
  },
  flannel: {
    role: "delegating",
    setUp: writeSubnetFiles,
    keys: ({ network }) => ({
      ...subnetFileOf(network),
      delegate: { bridge: `br-${network}`, isDefaultGateway: true },
    }),
  },
  loopback: { role: "loopback", keys: () => ({}) },
  "host-local": { role: "ipam", keys: ({ network }) => ({ ipam: pool(network) }) },
  dhcp: {
    role: "ipam",
    like: "static",
    staged: false, // the servers, daemons and tests that kill verbs are in integration/dhcp
    keys: () => ({ ipam: { type: "dhcp" } }),
  },
  static: {
    role: "ipam",
    keys: () => ({ ipam: { type: "static", addresses: [{ address: "10.44.0.7/24", gateway: "10.44.0.1" }] } }),
  },
  bandwidth: {
    role: "chained",
    needs: ["ifb", "tbf"],
    keys: () => ({ ingressRate: "80M", egressRate: "80M", egressBurst: "1MiB" }),
  },
  firewall: { role: "chained", keys: () => ({ ingressPolicy: "same-bridge" }) },
  portmap: {
    role: "chained",
    keys: ({ port }) => ({
      runtimeConfig: { portMappings: [{ hostPort: port, containerPort: 80, protocol: "tcp" }] },
    }),
  },
  sbr: { role: "chained", keys: () => ({}) },
  tuning: {
    role: "chained",
    keys: () => ({ sysctl: { "net.ipv4.conf.IFNAME.arp_filter": "1" }, txQLen: 77 }),
  },
  vrf: {
    role: "chained",
    needs: ["vrf"],
    keys: () => ({ vrfname: "red" }),
    like: "sbr",
  },
}

/** Returns the entry of a plugin. Throws if the plugin is not in the table. */
export function pluginRow(name: string): Plugin {
  const plugin = plugins[name]
  if (!plugin) throw new Error(`Say in integration/lab/plugins.ts how "${name}" is configured`)
  return plugin
}

/** Returns the names of the plugins with one of `roles`, or of all plugins if `roles` is empty. */
export function pluginsAs(...roles: readonly Role[]): string[] {
  return pluginNames.filter((name) => roles.length === 0 || roles.includes(pluginRow(name).role))
}

export function neededByPlugins(): Feature[] {
  return pluginsAs().flatMap((name) => pluginRow(name).needs ?? [])
}

export function interfacePlugins(chosen: (plugin: InterfacePlugin) => boolean = () => true): string[] {
  return pluginsAs("interface").filter((name) => chosen(interfacePlugin(name)))
}

/** Returns the entry of an interface plugin. Throws for other plugins. */
export function interfacePlugin(name: string): InterfacePlugin {
  const plugin = pluginRow(name)
  if (plugin.role !== "interface") throw new Error(`"${name}" makes no interface`)
  return plugin
}
