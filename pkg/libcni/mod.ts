/**
 * The runtime's part of CNI: loads networks, runs their chains of plugins, and stores the results between ADD and DEL.
 *
 * @example
 * const network = loadNetwork("/etc/cni/net.d", "lab")
 * const runtime = { path: ["/opt/cni/bin"], cacheDir: "/var/lib/cni", env: process.env, stderr: (chunk) => log(chunk) }
 * const lab = { containerId: "c1", netns: "/run/netns/c1", ifName: "eth0", args: [], capabilityArgs: {} }
 * const result = await addNetwork(runtime, network, lab, { undo: true })
 * await checkNetwork(runtime, network, lab)
 * await delNetwork(runtime, network, lab)
 */
export { type AddOptions, addNetwork } from "./add.ts"
export { type CacheKey, cachedAttachments, cacheFile, readCache } from "./cache.ts"
export { type Attached, type CachedAttachment, type CacheState, effectiveConfig } from "./cached.ts"
export { type CheckAnswer, CheckNotSupported, checkEachPlugin, checkNetwork } from "./check.ts"
export { type DelOptions, delNetwork } from "./del.ts"
export type { Exec, Execution, Outcome } from "./exec.ts"
export { gcNetwork, staleAttachments, type ValidSet } from "./gc.ts"
export { loadNetwork, loadNetworkFile, networkFiles, networkNames } from "./load.ts"
export type { Attachment, AttachmentId, Network, NetworkPlugin, Runtime } from "./network.ts"
export { type NetworkList, parseNetworkList, parsePlugin, parseSinglePlugin } from "./parse.ts"
export { type Derivation, deriveRequest, inject } from "./request.ts"
export { convertResult, readResult } from "./results.ts"
export { pluginVersions, statusNetwork, validateNetwork } from "./status.ts"
export type {
  Bandwidth,
  CapabilityArgs,
  IpRange,
  NetworkListConfig,
  OldAddress,
  PluginConfig,
  PortMapping,
  ResultAddress,
  ResultDocument,
  SinglePluginConfig,
} from "./typed.ts"
