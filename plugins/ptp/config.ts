import {
  type Fields,
  interfaceKeys,
  isCleanup,
  type KeyDoc,
  masqueradeKeys,
  parseConfig,
  readInterfaceKeys,
} from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import { CniError, Code, type NetworkConfig } from "../../pkg/types/mod.ts"

/** The keys of its configuration. */
export const ptpFields = { ...interfaceKeys, ...masqueradeKeys } as const satisfies Fields

/** The documentation of the keys: the table on the page, the schema and the manual page are made from it. */
export const ptpKeyDocs: readonly KeyDoc[] = [
  { paths: ["ipam.type"], default: "required", meaning: "the IPAM plugin" },
  { paths: ["ipMasq"], default: "false", meaning: "traffic to other networks leaves the host with the host's address" },
  {
    paths: ["ipMasqBeyond"],
    default: "none",
    meaning: "a list of networks, such as a cluster's: traffic between addresses of one of them is not masqueraded",
  },
  {
    paths: ["ipMasqBackend"],
    default: "see right",
    meaning: "`nftables` or `iptables`; the default is iptables only where the kernel has no nf_tables",
  },
  { paths: ["mtu"], default: "kernel's", meaning: "MTU of both ends of the pair; 0 and less: the kernel's choice" },
  {
    paths: ["acceptRa"],
    default: "false",
    meaning:
      "whether the interface accepts routes and addresses from router advertisements; only the host is on its link",
  },
  {
    paths: ["dns"],
    default: "IPAM's",
    meaning: "replaces the IPAM plugin's DNS if it has any member; an empty list removes the IPAM plugin's",
  },
  {
    keys: "`runtimeConfig.mac`, `args.cni.mac`, `CNI_ARGS` `MAC`",
    paths: ["runtimeConfig.mac", "args.cni.mac"],
    default: "kernel's",
    meaning: "the container's MAC; the first of these takes effect",
  },
]

/** The checked configuration of a point-to-point attachment. The MTU applies to both ends. */
export type PtpConfig = ReturnType<typeof parsePtpConfig>

/**
 * Reads the configuration. For DEL and GC a wrong or missing value counts as absent. Throws code 7 naming the key, also
 * for a missing "ipam.type", or code 4 for `CNI_ARGS`.
 */
export function parsePtpConfig(network: NetworkConfig, { verb, args, raw }: ConfigCall) {
  const lenient = isCleanup(verb)
  const read = parseConfig(ptpFields, raw, lenient)
  if (!lenient && !network.ipam?.type) {
    throw new CniError(Code.InvalidNetworkConfig, `Cannot use network "${network.name}" with ptp: no "ipam.type"`, {
      details: "a point-to-point attachment needs addresses: name an IPAM plugin, such as host-local",
    })
  }
  // Upstream's ptp ignores CNI_ARGS, so keys that only others know must not become an error.
  const call = { verb, args: args === "" ? "" : `IgnoreUnknown=1;${args}` }
  const common = readInterfaceKeys(read, network, call)
  // The host is the only router on the link.
  return { ...read, ...common, acceptRa: read.acceptRa ?? false, hasRules: read.ipMasq }
}
