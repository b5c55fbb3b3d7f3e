import {
  type Fields,
  type InterfaceConfig,
  interfaceKeys,
  isCleanup,
  macAddress,
  mtuOrNone,
  parseConfig,
  readInterfaceKeys,
} from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import { CniError, Code, type NetworkConfig } from "../../pkg/types/mod.ts"

/** The keys of its configuration. */
export const dummyFields = {
  ...interfaceKeys,
  mtu: { ...mtuOrNone, min: 0 },
  mac: macAddress,
} as const satisfies Fields

/**
 * Reads the configuration of a dummy interface. For DEL and GC a wrong or missing value counts as absent. Throws code 7
 * naming the key, also for a missing "ipam.type", or code 4 for `CNI_ARGS`.
 */
export function parseDummyConfig(network: NetworkConfig, { verb, args, raw }: ConfigCall): InterfaceConfig {
  const read = parseConfig(dummyFields, raw, isCleanup(verb))
  // Upstream's dummy ignores CNI_ARGS, so keys that only others know must not become an error.
  const config = readInterfaceKeys(read, network, { verb, args: args === "" ? "" : `IgnoreUnknown=1;${args}` })
  if (config.ipam !== undefined || isCleanup(verb)) return config
  // upstream's wording
  throw new CniError(Code.InvalidNetworkConfig, "dummy interface requires an IPAM configuration", {
    details: 'name an IPAM plugin, such as host-local, by "ipam.type"',
  })
}
