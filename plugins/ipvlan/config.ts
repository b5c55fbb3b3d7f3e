import {
  dns,
  type Fields,
  interfaceKeys,
  isCleanup,
  type KeyDoc,
  linkNameOrNone,
  mtuOrNone,
  namesOf,
  off,
  parseConfig,
  readInterfaceKeys,
} from "../../pkg/config/mod.ts"
import { ipvlanFlags, ipvlanModes } from "../../pkg/netlink/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import type { NetworkConfig } from "../../pkg/types/mod.ts"

export const ipvlanFields = {
  master: linkNameOrNone,
  mode: { kind: "choice", of: ["", ...namesOf(ipvlanModes)], expected: '"l2", "l3" or "l3s"', default: "" },
  flag: {
    kind: "choice",
    of: ["", ...namesOf(ipvlanFlags)],
    expected: '"bridge", "private" or "vepa"',
    default: "",
  },
  mtu: mtuOrNone,
  linkInContainer: off,
  acceptRa: interfaceKeys.acceptRa,
  dns,
} as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const ipvlanKeyDocs: readonly KeyDoc[] = [
  {
    paths: ["master"],
    default: "see right",
    meaning:
      "the host's interface, by its name or an alternative name. The default in a chain is the one interface of the earlier plugin's result; otherwise it is the interface of the default route with the lowest metric, IPv4 before IPv6, with the first of several next hops",
  },
  {
    paths: ["mode"],
    default: "`l2`",
    meaning:
      "`l2`: the container is a member of the network like the host; `l3`: the host routes for the container, without broadcast, ARP and neighbor discovery, so the network needs a route to the container through the host; `l3s`: like `l3`, and packets pass the host's packet filter",
  },
  {
    paths: ["flag"],
    default: "`bridge`",
    meaning:
      "`bridge`: containers on one master can reach each other; `private`: they cannot; `vepa`: only through a switch that sends frames back",
  },
  {
    paths: ["mtu"],
    default: "the master's",
    meaning:
      "0 for the master's. A larger MTU is accepted, as by upstream, but has effect only between containers of one master",
  },
  { paths: ["linkInContainer"], default: "false", meaning: "the master is in the container's namespace" },
  {
    paths: ["ipam.type"],
    default: "none",
    meaning:
      "the IPAM plugin. Without it, the interface gets the addresses, routes and DNS of the earlier plugin's result in a chain, and otherwise none",
  },
  {
    paths: ["acceptRa"],
    default: "see right",
    meaning:
      "accepts routes and addresses from router advertisements; off by default if IPAM or the earlier plugin gave the interface IPv6 addresses, otherwise the kernel decides",
  },
  {
    paths: ["dns"],
    default: "the IPAM plugin's",
    meaning: "replaces the IPAM plugin's DNS if `dns` sets anything, even an empty list",
  },
]

export type IpvlanConfig = ReturnType<typeof parseIpvlanConfig>

/** Parses the configuration. For DEL and GC, ignores invalid values; otherwise throws code 7 that names the key. */
export function parseIpvlanConfig(network: NetworkConfig, { verb, raw }: ConfigCall) {
  const read = parseConfig(ipvlanFields, raw, isCleanup(verb))
  return {
    ...readInterfaceKeys({ ...read, ipam: network.ipam }, network, { verb, args: "" }),
    /** Undefined selects the interface of an earlier plugin, or else the interface of the default route. */
    master: read.master || undefined,
    linkInContainer: read.linkInContainer,
    mode: read.mode || "l2",
    flag: read.flag || "bridge",
  }
}
