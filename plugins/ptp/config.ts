import {
  type Fields,
  interfaceKeys,
  isCleanup,
  masqueradeKeys,
  parseConfig,
  readInterfaceKeys,
} from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import { CniError, Code, type NetworkConfig } from "../../pkg/types/mod.ts"

/** The keys of its configuration. */
export const ptpFields = { ...interfaceKeys, ...masqueradeKeys } as const satisfies Fields

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
