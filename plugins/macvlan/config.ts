import {
  dns,
  type Fields,
  interfaceKeys,
  isCleanup,
  type KeyDoc,
  linkNameOrNone,
  macAddress,
  mtuOnMaster,
  namesOf,
  off,
  parseConfig,
  readInterfaceKeys,
} from "../../pkg/config/mod.ts"
import { macvlanModes } from "../../pkg/netlink/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import type { NetworkConfig } from "../../pkg/types/mod.ts"

export const macvlanFields = {
  master: linkNameOrNone,
  mode: {
    kind: "choice",
    of: ["", ...namesOf(macvlanModes)],
    expected: '"bridge", "private", "vepa" or "passthru"',
    default: "bridge",
  },
  mtu: mtuOnMaster,
  mac: macAddress,
  linkInContainer: off,
  acceptRa: interfaceKeys.acceptRa,
  bcqueuelen: { kind: "integer", min: 0, max: 2 ** 32 - 1, default: 0 },
  dns,
  ipam: interfaceKeys.ipam,
  runtimeConfig: { kind: "object", fields: { mac: macAddress } },
} as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const macvlanKeyDocs: readonly KeyDoc[] = [
  {
    paths: ["master"],
    default: "see right",
    meaning:
      "the host's interface, by its name or an alternative name. The default in a chain is the one interface of the earlier plugin's result; otherwise it is the interface of the default route with the lowest metric, IPv4 before IPv6, with the first of several next hops",
  },
  {
    paths: ["mode"],
    default: "`bridge`",
    meaning:
      "`bridge`: containers on one master can reach each other; `private`: they cannot; `vepa`: only through a switch that sends frames back; `passthru`: one container has the master to itself",
  },
  { paths: ["mtu"], default: "the master's", meaning: "at most the master's MTU; 0 for the master's" },
  { paths: ["linkInContainer"], default: "false", meaning: "the master is in the container's namespace" },
  {
    paths: ["bcqueuelen"],
    default: "the kernel's",
    meaning:
      "length of the queue of broadcast and multicast frames for the other macvlans of the master; since Linux 5.11",
  },
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
  {
    keys: "`runtimeConfig.mac`, `CNI_ARGS` `MAC`, `mac`",
    paths: ["runtimeConfig.mac", "mac"],
    default: "the kernel's",
    meaning: "the container's MAC; the first of these keys that is set takes effect",
  },
]

export type MacvlanConfig = ReturnType<typeof parseMacvlanConfig>

/** Parses the configuration; for DEL and GC, ignores invalid values. Throws code 7 with the key, 4 for `CNI_ARGS`. */
export function parseMacvlanConfig(network: NetworkConfig, call: ConfigCall) {
  const read = parseConfig(macvlanFields, call.raw, isCleanup(call.verb))
  return {
    ...readInterfaceKeys(read, network, call),
    ...(read.mtu < 0 && !isCleanup(call.verb) && { mtu: read.mtu }), // the error names the range that the master allows
    /** Undefined selects the interface of an earlier plugin, or else the interface of the default route. */
    master: read.master || undefined,
    linkInContainer: read.linkInContainer,
    mode: read.mode || "bridge",
    /** Undefined selects the kernel's default, 1000. */
    bcqueuelen: read.bcqueuelen || undefined,
  }
}
