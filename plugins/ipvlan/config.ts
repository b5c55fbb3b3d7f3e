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

/** The keys of the plugin's configuration. */
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

/**
 * The documentation of the keys. The table on the plugin's page, the schema and the manual page are generated from it.
 */
export const ipvlanKeyDocs: readonly KeyDoc[] = [
  {
    paths: ["master"],
    default: "see right",
    meaning:
      "the host's interface, or its alternative name; by default, in a chain, the one interface of the earlier plugin's result, otherwise that of the default route with the lowest metric; IPv4 precedes IPv6, and the first of several next hops is used",
  },
  {
    paths: ["mode"],
    default: "`l2`",
    meaning:
      "`l2`: a member of the network like the host; `l3`: the host routes for it, without broadcast, ARP and neighbor discovery, so the network needs a route to it through the host; `l3s`: the same, and its packets pass the host's packet filter",
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
      "0 for the master's. A larger one is accepted, as by upstream; it has effect only between containers of one master",
  },
  { paths: ["linkInContainer"], default: "false", meaning: "the master is in the container's namespace" },
  {
    paths: ["ipam.type"],
    default: "none",
    meaning:
      "the IPAM plugin; without it, in a chain, the addresses, routes and DNS of the earlier plugin's result; otherwise the interface has no addresses",
  },
  {
    paths: ["acceptRa"],
    default: "see right",
    meaning:
      "whether the interface accepts routes and addresses from router advertisements; by default not if IPAM or the earlier plugin gave it IPv6 addresses, otherwise as the kernel decides",
  },
  {
    paths: ["dns"],
    default: "the IPAM plugin's",
    meaning: "replaces the IPAM plugin's DNS if it has any member; an empty list removes the IPAM plugin's",
  },
]

/** The checked configuration of an ipvlan attachment. */
export type IpvlanConfig = ReturnType<typeof parseIpvlanConfig>

/** Parses the configuration. DEL and GC treat an invalid value as absent. Throws code 7 that names the key. */
export function parseIpvlanConfig(network: NetworkConfig, { verb, raw }: ConfigCall) {
  const read = parseConfig(ipvlanFields, raw, isCleanup(verb))
  return {
    ...readInterfaceKeys({ ...read, ipam: network.ipam }, network, { verb, args: "" }),
    /** Undefined selects the interface of an earlier plugin, or else that of the default route. */
    master: read.master || undefined,
    linkInContainer: read.linkInContainer,
    mode: read.mode || "l2",
    flag: read.flag || "bridge",
  }
}
