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

export const ptpFields = { ...interfaceKeys, ...masqueradeKeys } as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
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
    meaning: "`nftables` or `iptables`; iptables is the default only if the kernel has no nf_tables",
  },
  { paths: ["mtu"], default: "kernel's", meaning: "MTU of both ends of the pair; 0 or less for the kernel's choice" },
  {
    paths: ["acceptRa"],
    default: "false",
    meaning: "accepts routes and addresses from router advertisements, which only the host can send on this link",
  },
  {
    paths: ["dns"],
    default: "IPAM's",
    meaning: "replaces the IPAM plugin's DNS if `dns` sets anything, even an empty list",
  },
  {
    keys: "`runtimeConfig.mac`, `args.cni.mac`, `CNI_ARGS` `MAC`",
    paths: ["runtimeConfig.mac", "args.cni.mac"],
    default: "kernel's",
    meaning: "the container's MAC; the first of these keys that is set takes effect",
  },
]

/** The checked configuration of a ptp attachment. The MTU applies to both ends of the pair. */
export type PtpConfig = ReturnType<typeof parsePtpConfig>

/**
 * Parses the configuration. For DEL and GC, ignores invalid or missing values. Otherwise throws code 7 that names the
 * key, also if "ipam.type" is missing, or code 4 for `CNI_ARGS`.
 */
export function parsePtpConfig(network: NetworkConfig, { verb, args, raw }: ConfigCall) {
  const lenient = isCleanup(verb)
  const read = parseConfig(ptpFields, raw, lenient)
  if (!lenient && !network.ipam?.type) {
    throw new CniError(Code.InvalidNetworkConfig, `Cannot use network "${network.name}" with ptp: no "ipam.type"`, {
      details: "a point-to-point attachment needs addresses: name an IPAM plugin, such as host-local",
    })
  }
  // Upstream's ptp ignores CNI_ARGS, so a key for another plugin must not be an error.
  const call = { verb, args: args === "" ? "" : `IgnoreUnknown=1;${args}` }
  const common = readInterfaceKeys(read, network, call)
  // The host is the only router on the link.
  return { ...read, ...common, acceptRa: read.acceptRa ?? false, hasRules: read.ipMasq }
}
