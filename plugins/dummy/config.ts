import {
  type Fields,
  type InterfaceConfig,
  interfaceKeys,
  isCleanup,
  type KeyDoc,
  macAddress,
  mtuOrNone,
  parseConfig,
  readInterfaceKeys,
} from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import { CniError, Code, type NetworkConfig } from "../../pkg/types/mod.ts"

export const dummyFields = {
  ...interfaceKeys,
  mtu: { ...mtuOrNone, min: 0 },
  mac: macAddress,
} as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const dummyKeyDocs: readonly KeyDoc[] = [
  { paths: ["ipam.type"], default: "required", meaning: "the IPAM plugin" },
  { paths: ["mtu"], default: "the kernel's 1500", meaning: "68 to 65535; 0 for the kernel's" },
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
  {
    keys: "`runtimeConfig.mac`, `args.cni.mac`, `CNI_ARGS` `MAC`, `mac`",
    paths: ["runtimeConfig.mac", "args.cni.mac", "mac"],
    default: "the kernel's",
    meaning: "the container's MAC; the first of these keys that is set takes effect",
  },
]

/**
 * Parses the configuration. For DEL and GC, ignores invalid or missing values. Otherwise throws code 7 that names the
 * key, also if "ipam.type" is missing, or code 4 for `CNI_ARGS`.
 */
export function parseDummyConfig(network: NetworkConfig, { verb, args, raw }: ConfigCall): InterfaceConfig {
  const read = parseConfig(dummyFields, raw, isCleanup(verb))
  // Upstream's dummy ignores CNI_ARGS, so a key for another plugin must not be an error.
  const config = readInterfaceKeys(read, network, { verb, args: args === "" ? "" : `IgnoreUnknown=1;${args}` })
  if (config.ipam !== undefined || isCleanup(verb)) return config
  // upstream's wording
  throw new CniError(Code.InvalidNetworkConfig, "dummy interface requires an IPAM configuration", {
    details: 'name an IPAM plugin, such as host-local, by "ipam.type"',
  })
}
