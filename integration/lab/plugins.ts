import { pluginNames } from "../../suite/plugins.ts"
import { newest } from "./attachment.ts"
import type { Feature } from "./features.ts"
import type { HostNamespace } from "./host-namespace.ts"

/**
 * What a plugin does for an attachment: makes an interface, or has another plugin do so, moves a device there, brings up `lo`,
 * gives addresses, or comes after others.
 */
export type Role = Plugin["role"]

/** A network of a stage: "lab" has 10.22.0.0/24, "other" 10.23.0.0/24. */
export type Network = "lab" | "other"

/** Where one attachment is. */
interface Place {
  readonly network: Network
  /** Of the host; no two attachments of a stage have the same. */
  readonly port: number
}

/** What the shared cases know of every plugin. */
interface AnyPlugin {
  /** The features without which it cannot do its work: where one is missing, its cases are left out. */
  readonly needs?: readonly [Feature, ...Feature[]]
  /**
   * The plugin that shows most of the shared cases for this one, too: on the same scaffold, and on more kernels. This one has those
   * that tell what becomes of its kind of link, see `testPlugin`; what is particular to it has tests of its own.
   */
  readonly like?: string
  /** False where ADD needs more than a stage has, such as a server: of the shared cases it has those that need no ADD. */
  readonly staged?: false
  /** Directories of devices that it works with. */
  readonly devices?: readonly string[]
  /** What a host has to have before the first ADD, such as the link that the containers' interfaces sit on. */
  readonly setUp?: (host: HostNamespace) => Promise<unknown>
  /** Its configuration, with as much to do as there is, but for IPv6. */
  readonly keys: (place: Place) => Record<string, unknown>
}

interface OtherPlugin extends AnyPlugin {
  readonly role: "delegating" | "device" | "loopback" | "ipam" | "chained"
}

/** What the shared cases know of a plugin that makes the container's interface, and of a network of it. */
export interface InterfacePlugin extends AnyPlugin {
  readonly role: "interface"
  /**
   * Whether the container's interface has another end on the host, which is in the result. Without one, DEL that is not told the
   * namespace leaves the interface to the kernel, which deletes it with its namespace.
   */
  readonly hasHostEnd: boolean
  /** Whether it knows `ipMasq`, and makes the host forward. */
  readonly masquerades: boolean
  /** The network, with IPv4 addresses alone; `keys` replace or add keys at the top. */
  readonly network: (keys?: object) => NetworkKeys
  /** Keys by which ADD changes all that it may change of a host. */
  readonly everything: object
  /** Keys for addresses of both families, with a default route for each. */
  readonly dualStack: object
  /** Keys for a default route of IPv4, and what the result says of it. */
  readonly defaultRoute: { readonly keys: object; readonly answered: { dst: string; gw?: string } }
  /** Keys of another network that may have containers at the same time. */
  readonly neighbour: object
  /** Keys of a network that has nothing in common with this one, not even a bridge. */
  readonly stranger: object
  readonly subnet: string
  readonly gateway: string
  /** What the first two containers get, of IPv4 and of IPv6. */
  readonly pairs: readonly [AddressPair, AddressPair]
}

/** A configuration, as it is written. */
type NetworkKeys = Record<string, unknown> & { ipam: Record<string, unknown> }

/** Addresses of two containers in one network. */
export interface AddressPair {
  readonly first: string
  readonly second: string
  readonly prefix: number
}

type Plugin = InterfacePlugin | OtherPlugin

const subnets = { lab: "10.22.0.0/24", other: "10.23.0.0/24" } as const
const pool = (network: Network) => ({ type: "host-local", ranges: [[{ subnet: subnets[network] }]] })

/** Keys of a bridge with the gateway's address. */
export const gatewayBridge = (network: Network) => ({
  bridge: `br-${network}`,
  isDefaultGateway: true,
  ipam: pool(network),
})

/**
 * The network that the shared cases have of a plugin that makes interfaces, as far as it needs nothing particular: `own` are
 * the keys that it cannot be without.
 */
function labNetwork(type: string, own: object = {}) {
  const ipam = (...ranges: string[]) => ({ type: "host-local", ranges: ranges.map((subnet) => [{ subnet }]) })
  const [subnet, subnet6] = ["10.22.0.0/16", "fd00:22::/64"]
  const defaultRoute = { dst: "0.0.0.0/0" }
  return {
    keys: ({ network }: Place) => ({ ...own, ipam: { ...pool(network), routes: [defaultRoute] } }),
    network: (keys: object = {}): NetworkKeys => ({
      ...{ cniVersion: newest, name: "lab", type, ...own, ipam: ipam(subnet) },
      ...keys,
    }),
    dualStack: { ipam: { ...ipam(subnet, subnet6), routes: [defaultRoute, { dst: "::/0" }] } },
    defaultRoute: { keys: { ipam: { ...ipam(subnet), routes: [defaultRoute] } }, answered: defaultRoute },
    // The host may have one route to an address: networks with the same addresses would be in each other's way.
    neighbour: { name: "lab-2", ipam: ipam("10.8.0.0/16") },
    stranger: { name: "other" },
    subnet,
    gateway: "10.22.0.1",
    pairs: [
      { first: "10.22.0.2", second: "10.22.0.3", prefix: 16 },
      { first: "fd00:22::2", second: "fd00:22::3", prefix: 64 },
    ],
  } as const
}

/** Gives a host a link that others can sit on, like a network card. */
async function addUplink(host: HostNamespace): Promise<void> {
  await host.exec("ip", ["link", "add", "uplink", "up", "mtu", "9000", "type", "veth", "peer", "name", "card"])
  await host.exec("ip", ["link", "set", "card", "up", "mtu", "9000"])
}

/** Gives a host devices for as many attachments as a test may make, one for each port of `Place`. */
async function addDevices(host: HostNamespace): Promise<void> {
  for (let port = 8080; port < 8092; port++) {
    await host.exec("ip", ["link", "add", `dev${port}`, "up", "type", "veth", "peer", "name", `far${port}`])
  }
}

/** Where a host of the shared cases has what flanneld writes about a node, for each network. */
const subnetFileOf = (network: Network) => ({ subnetFile: `/run/cni/flannel-${network}.env` })

/** Writes for a host what flanneld would write. */
async function writeSubnetFiles(host: HostNamespace): Promise<void> {
  for (const network of ["lab", "other"] as const) {
    const lines = [
      "FLANNEL_NETWORK=10.0.0.0/8",
      `FLANNEL_SUBNET=${subnets[network]}`,
      "FLANNEL_MTU=1450",
      "FLANNEL_IPMASQ=false",
    ]
    await Bun.write(host.file(subnetFileOf(network).subnetFile), `${lines.join("\n")}\n`)
  }
}

/** The table. A plugin that gets a row here gets the shared cases. */
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
    keys: (place) => ({ ...labNetwork("vlan", { master: "uplink" }).keys(place), vlanId: place.port - 8000 }), // one's own
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
    staged: false, // integration/dhcp has servers, daemons, and verbs that are killed
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

/** What the shared cases know of a plugin. Throws when it has no row in the table. */
export function pluginRow(name: string): Plugin {
  const plugin = plugins[name]
  if (!plugin) throw new Error(`Say in integration/lab/plugins.ts how "${name}" is configured`)
  return plugin
}

/** The names of all plugins of the executable, or of those in some roles. */
export function pluginsAs(...roles: readonly Role[]): string[] {
  return pluginNames.filter((name) => roles.length === 0 || roles.includes(pluginRow(name).role))
}

/** The features of the kernel that some plugin cannot do without. */
export function neededByPlugins(): Feature[] {
  return pluginsAs().flatMap((name) => pluginRow(name).needs ?? [])
}

/** The plugins that make interfaces, by name, or those of them that are `chosen`. */
export function interfacePlugins(chosen: (plugin: InterfacePlugin) => boolean = () => true): string[] {
  return pluginsAs("interface").filter((name) => chosen(interfacePlugin(name)))
}

/** The row of a plugin that makes interfaces. Throws for another. */
export function interfacePlugin(name: string): InterfacePlugin {
  const plugin = pluginRow(name)
  if (plugin.role !== "interface") throw new Error(`"${name}" makes no interface`)
  return plugin
}
