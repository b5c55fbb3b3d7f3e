/**
 * The CNI specification as types and pure functions: configuration, result, errors, names and versions.
 *
 * @example
 * const raw = parseJsonObject(stdin)
 * const network = parseNetworkConfig(raw)
 * printJson(encodeResult({ interfaces: [], ips: [{ address: "192.0.2.9/24" }], routes: [], dns: {} }, network.cniVersion))
 */

export * from "./addresses.ts"
export { type CniArgReaders, type CniArgs, parseCniArgs, parseCniBoolean, readCniArgs } from "./cni-args.ts"
export { foldKeys, member } from "./decode.ts"
export {
  AlreadyAttached,
  CniError,
  Code,
  type ErrorObject,
  isCniError,
  isWhole,
  messageOf,
  orCannot,
  toErrorObject,
} from "./error.ts"
export * from "./json.ts"
export { IFNAMSIZ, isPlain, validateContainerId, validateInterfaceName, validateNetworkName } from "./names.ts"
export * from "./network-config.ts"
export { isOfContainer, isOwnerOf, type Owner, ownerComment, ownerOf, ownersOf, staleOf } from "./owner.ts"
export type { Dns, Interface, IpConfig, Result, Route } from "./result.ts"
export { convertResult, decodeResult, decodeResultOf, encodeResult } from "./result-codec.ts"
export {
  atLeast,
  compareVersions,
  newestVersion,
  parseVersion,
  supportedVersions,
  type Version,
} from "./version.ts"
