/**
 * The npm package `libcni`: the runtime's part of CNI, and the types, errors and versions of the specification.
 * `pkg/libcni/README.md` describes it. The plugin's part is `libcni/plugin` (`plugin.ts`).
 *
 * @example
 * const network = loadNetwork("/etc/cni/net.d", "lab")
 * const result = await addNetwork(runtime, network, attachment, { undo: true })
 */
export type { TraceContext } from "../invoke/mod.ts"
export * from "../libcni/mod.ts"
export {
  atLeast,
  CniError,
  Code,
  compareVersions,
  type Dns,
  type ErrorObject,
  type Interface,
  type IpConfig,
  isCniError,
  type JsonObject,
  type JsonValue,
  newestVersion,
  parseCniArgs,
  type RawNumber,
  type Result,
  type Route,
  supportedVersions,
  validateContainerId,
  validateInterfaceName,
  validateNetworkName,
} from "../types/mod.ts"
