/**
 * Reads a plugin's JSON by a schema, and returns a checked value. Keys that several plugins share are defined once.
 *
 * @example
 * const schema = {
 *   ...interfaceKeys,
 *   ...masqueradeKeys,
 *   bridge: { ...interfaceName, default: "cni0" },
 *   isGateway: off,
 * } as const satisfies Fields
 * const read = parseConfig(schema, call.raw, isCleanup(call.verb))
 * const { mtu, mac, dns, ipam } = readInterfaceKeys(read, network, call)
 */
export { didYouMean } from "./did-you-mean.ts"
export {
  dns,
  type InterfaceConfig,
  interfaceKeys,
  interfaceName,
  isCleanup,
  linkNameOrNone,
  macAddress,
  macAddressOrNone,
  masqueradeKeys,
  mtuOnMaster,
  mtuOrNone,
  namesOf,
  off,
  ownDns,
  pathOrNone,
  readInterfaceKeys,
} from "./fields.ts"
export { expectation, invalidConfig, parseConfig } from "./parse.ts"
export type { Fields, Infer, KeyDoc, Schema } from "./schema.ts"
