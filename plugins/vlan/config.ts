import {
  dns,
  type Fields,
  interfaceKeys,
  isCleanup,
  type KeyDoc,
  linkNameOrNone,
  mtuOnMaster,
  namesOf,
  off,
  parseConfig,
  readInterfaceKeys,
} from "../../pkg/config/mod.ts"
import { vlanProtocols } from "../../pkg/netlink/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import { CniError, Code, type NetworkConfig } from "../../pkg/types/mod.ts"

export const vlanFields = {
  master: linkNameOrNone,
  vlanId: { kind: "integer", min: 0, max: 4094, default: 0 },
  protocol: {
    kind: "choice",
    of: namesOf(vlanProtocols),
    expected: '"802.1Q" or "802.1ad"',
    ignoreCase: true,
    default: "802.1q",
  },
  mtu: mtuOnMaster,
  linkInContainer: off,
  acceptRa: interfaceKeys.acceptRa,
  dns,
} as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const vlanKeyDocs: readonly KeyDoc[] = [
  {
    paths: ["master"],
    default: "–",
    meaning: "the interface that carries the VLAN, or its alternative name; it must be up",
  },
  { paths: ["vlanId"], default: "0", meaning: "0 to 4094" },
  { paths: ["protocol"], default: "`802.1Q`", meaning: "or `802.1ad`, the provider tag" },
  { paths: ["mtu"], default: "the master's", meaning: "at most the master's MTU; 0 for the master's" },
  { paths: ["linkInContainer"], default: "false", meaning: "the master is in the container's namespace" },
  { paths: ["ipam.type"], default: "–", meaning: "the IPAM plugin" },
  {
    paths: ["acceptRa"],
    default: "see right",
    meaning:
      "accepts routes and addresses from router advertisements; off by default if IPAM gave the interface IPv6 addresses, otherwise the kernel decides",
  },
  {
    paths: ["dns"],
    default: "the IPAM plugin's",
    meaning: "replaces the IPAM plugin's DNS if `dns` sets anything, even an empty list",
  },
]

export type VlanConfig = ReturnType<typeof parseVlanConfig>

/**
 * Parses the configuration. For DEL and GC, ignores invalid or missing values; otherwise throws code 7 that names the
 * key, also if "master" or "ipam.type" is missing.
 */
export function parseVlanConfig(network: NetworkConfig, { verb, raw }: ConfigCall) {
  const read = parseConfig(vlanFields, raw, isCleanup(verb))
  const missing = !read.master ? "master" : network.ipam?.type ? undefined : "ipam.type"
  if (missing && !isCleanup(verb)) {
    throw new CniError(Code.InvalidNetworkConfig, `Cannot use network "${network.name}" with vlan: no "${missing}"`)
  }
  return {
    ...readInterfaceKeys({ ...read, ipam: network.ipam }, network, { verb, args: "" }),
    ...(read.mtu < 0 && !isCleanup(verb) && { mtu: read.mtu }), // a later check names the range that the master allows
    /** Undefined only for DEL and GC. */
    master: read.master || undefined,
    linkInContainer: read.linkInContainer,
    vlanId: read.vlanId,
    protocol: read.protocol,
  }
}
