import { bridgeNetwork, newest } from "./attachment.ts"

/** A plugin that attaches containers by veth pairs, and a network of it: what the cases that hold for both need to know. */
export interface AttachingPlugin {
  readonly name: "bridge" | "ptp"
  /** The network, with IPv4 addresses alone; `keys` replace or add keys at the top. */
  network(keys?: object): ReturnType<typeof bridgeNetwork>
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

/** Addresses of two containers in one network. */
export interface AddressPair {
  readonly first: string
  readonly second: string
  readonly prefix: number
}

export const bridge: AttachingPlugin = {
  name: "bridge",
  network: bridgeNetwork,
  everything: { isDefaultGateway: true, ipMasq: true, macspoofchk: true },
  dualStack: {
    isDefaultGateway: true,
    ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }], [{ subnet: "fd00:22::/64" }]] },
  },
  defaultRoute: { keys: { isDefaultGateway: true }, answered: { dst: "0.0.0.0/0", gw: "10.22.0.1" } },
  neighbour: { name: "lab-2" },
  stranger: { name: "other", bridge: "br-other" },
  subnet: "10.22.0.0/16",
  gateway: "10.22.0.1",
  pairs: [
    { first: "10.22.0.2", second: "10.22.0.3", prefix: 16 },
    { first: "fd00:22::2", second: "fd00:22::3", prefix: 64 },
  ],
}

/** A ptp network with host-local addresses in 10.9.0.0/24; `keys` replace or add keys at the top. */
export function ptpNetwork(keys: object = {}): Record<string, unknown> & { ipam: Record<string, unknown> } {
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.9.0.0/24" }]] }
  return { cniVersion: newest, name: "wire", type: "ptp", ipam, ...keys }
}

/** Both families of ptp, each with a default route. */
const dualStack = {
  ipam: {
    type: "host-local",
    ranges: [[{ subnet: "10.9.0.0/24" }], [{ subnet: "fd00:9::/64" }]],
    routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
  },
}

export const ptp: AttachingPlugin = {
  name: "ptp",
  network: ptpNetwork,
  everything: { ...dualStack, ipMasq: true },
  dualStack,
  defaultRoute: {
    keys: { ipam: { ...ptpNetwork().ipam, routes: [{ dst: "0.0.0.0/0" }] } },
    answered: { dst: "0.0.0.0/0" },
  },
  // The host has one route to an address: networks with the same addresses would be in each other's way.
  neighbour: { name: "wire-2", ipam: { type: "host-local", ranges: [[{ subnet: "10.8.0.0/24" }]] } },
  stranger: { name: "other" },
  subnet: "10.9.0.0/24",
  gateway: "10.9.0.1",
  pairs: [
    { first: "10.9.0.2", second: "10.9.0.3", prefix: 24 },
    { first: "fd00:9::2", second: "fd00:9::3", prefix: 64 },
  ],
}
