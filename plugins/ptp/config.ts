import {
  type Fields,
  type InterfaceConfig,
  interfaceKeys,
  isCleanup,
  masqueradeKeys,
  parseConfig,
  readInterfaceKeys,
} from "../../pkg/config/mod.ts"
import type { MasqueradeBackend } from "../../pkg/masquerade/mod.ts"
import type { Verb } from "../../pkg/skel/mod.ts"
import { CniError, Code, type JsonObject, type NetworkConfig } from "../../pkg/types/mod.ts"

/** The keys of its configuration. */
export const ptpFields = { ...interfaceKeys, ...masqueradeKeys } as const satisfies Fields

/** The configuration of a point-to-point attachment, checked. The MTU is that of both ends. */
export interface PtpConfig extends InterfaceConfig {
  ipMasq: boolean
  /** Undefined: the one that the kernel can do. */
  ipMasqBackend: MasqueradeBackend | undefined
  hasRules: boolean
}

/**
 * Reads the configuration. For DEL and GC what is wrong or missing counts as absent. Throws code 7 that names the key,
 * also for a missing "ipam.type", or code 4 for `CNI_ARGS`.
 */
export function parsePtpConfig(
  network: NetworkConfig,
  { verb, args, raw }: { verb: Verb; args: string; raw: JsonObject },
): PtpConfig {
  const lenient = isCleanup(verb)
  const read = parseConfig(ptpFields, raw, lenient)
  if (!lenient && !network.ipam?.type) {
    throw new CniError(Code.InvalidNetworkConfig, `Cannot use network "${network.name}" with ptp: no "ipam.type"`, {
      details: "a point-to-point attachment needs addresses: name an IPAM plugin, such as host-local",
    })
  }
  // Upstream's ptp does not look at CNI_ARGS: keys that only others know must not become an error.
  const call = { verb, args: args === "" ? "" : `IgnoreUnknown=1;${args}` }
  const { ipMasq, ipMasqBackend } = read
  return { ...readInterfaceKeys(read, network, call), ipMasq, ipMasqBackend, hasRules: ipMasq }
}
