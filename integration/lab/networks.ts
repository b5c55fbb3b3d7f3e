import { newest } from "./attachment.ts"
import type { HostNamespace } from "./host-namespace.ts"
import type { Network, NetworkKeys, Place } from "./plugin-row.ts"

const subnets = { lab: "10.22.0.0/24", other: "10.23.0.0/24" } as const
export const pool = (network: Network) => ({ type: "host-local", ranges: [[{ subnet: subnets[network] }]] })

export const gatewayBridge = (network: Network) => ({
  bridge: `br-${network}`,
  isDefaultGateway: true,
  ipam: pool(network),
})

/** Returns the network of the shared cases for an ordinary interface plugin. `own` has the plugin's required keys. */
export function labNetwork(type: string, own: object = {}) {
  const ipam = (...ranges: string[]) => ({ type: "host-local", ranges: ranges.map((subnet) => [{ subnet }]) })
  const [subnet, subnet6] = ["10.22.0.0/16", "fd00:22::/64"]
  const defaultRoute = { dst: "0.0.0.0/0" }
  return {
    keys: ({ network }: Place) => ({ ...own, ipam: { ...pool(network), routes: [defaultRoute] } }),
    network: (keys: object = {}): NetworkKeys => ({
      cniVersion: newest,
      name: "lab",
      type,
      ...own,
      ipam: ipam(subnet),
      ...keys,
    }),
    dualStack: { ipam: { ...ipam(subnet, subnet6), routes: [defaultRoute, { dst: "::/0" }] } },
    defaultRoute: { keys: { ipam: { ...ipam(subnet), routes: [defaultRoute] } }, answered: defaultRoute },
    // The host may have only one route to an address, so the address ranges of networks must not overlap.
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

/** Creates a link on a host that plugins can use as parent, like a network card. */
export async function addUplink(host: HostNamespace): Promise<void> {
  await host.exec("ip", ["link", "add", "uplink", "up", "mtu", "9000", "type", "veth", "peer", "name", "card"])
  await host.exec("ip", ["link", "set", "card", "up", "mtu", "9000"])
}

/** Creates enough devices on a host for all attachments of a test: one for each `port` of a `Place`. */
export async function addDevices(host: HostNamespace): Promise<void> {
  for (let port = 8080; port < 8092; port++) {
    await host.exec("ip", ["link", "add", `dev${port}`, "up", "type", "veth", "peer", "name", `far${port}`])
  }
}

/** Returns the configuration key with the path of flanneld's subnet file for a network. */
export const subnetFileOf = (network: Network) => ({ subnetFile: `/run/cni/flannel-${network}.env` })

export async function writeSubnetFiles(host: HostNamespace): Promise<void> {
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
