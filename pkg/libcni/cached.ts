import { decodeBase64, encodeBase64, encodeUtf8 } from "../engine/mod.ts"
import { atLeast, type CniError, isJsonObject, type JsonObject, parseJsonObject, stringifyJson } from "../types/mod.ts"
import type { Attachment, Network } from "./network.ts"
import { type NetworkList, parseNetworkList, parseSinglePlugin } from "./parse.ts"
import type { CapabilityArgs } from "./typed.ts"

/** The value of `kind` in cache files, as upstream writes it. */
export const cacheKind = "cniCacheV1"

/** The record of an attachment between ADD and DEL, in upstream's layout. CRI-O reads these files directly. */
export interface CachedAttachment extends Omit<Attachment, "capabilityArgs"> {
  /** The values as in the file, unchecked. */
  readonly capabilityArgs: JsonObject
  readonly network: string
  /** The network list at the time of ADD. */
  readonly config: Uint8Array
  /** Whether `config` contains all plugins that ran. Upstream's library leaves out those of the network's directory. */
  readonly configComplete: boolean
  /** The result of the last plugin. */
  readonly result: JsonObject | undefined
}

/** Encodes a cache file with upstream's keys, and with `configComplete`, which upstream ignores. */
export function encodeCached(attachment: CachedAttachment): JsonObject {
  return {
    kind: cacheKind,
    containerId: attachment.containerId,
    config: encodeBase64(attachment.config),
    ...(attachment.configComplete ? { configComplete: true } : {}),
    ifName: attachment.ifName,
    networkName: attachment.network,
    ...(attachment.netns === "" ? {} : { netns: attachment.netns }),
    ...(attachment.args.length === 0 ? {} : { cniArgs: attachment.args.map(([key, value]) => [key, value]) }),
    ...(Object.keys(attachment.capabilityArgs).length === 0 ? {} : { capabilityArgs: attachment.capabilityArgs }),
    ...(attachment.result === undefined ? {} : { result: attachment.result }),
  }
}

/** Decodes a cache file; `undefined` if it names no attachment. `decodeConfig` may share bytes of equal texts. */
export function decodeCached(value: JsonObject, decodeConfig = decodeBase64): CachedAttachment | undefined {
  const { containerId, ifName, networkName, netns, config, configComplete, cniArgs, capabilityArgs, result } = value
  if (![containerId, ifName, networkName].every((part) => typeof part === "string" && part !== "")) return undefined
  return {
    containerId: String(containerId),
    ifName: String(ifName),
    network: String(networkName),
    netns: typeof netns === "string" ? netns : "",
    config: (typeof config === "string" ? decodeConfig(config) : undefined) ?? new Uint8Array(),
    configComplete: configComplete === true,
    args: Array.isArray(cniArgs) ? cniArgs.flatMap(pair) : [],
    capabilityArgs: isJsonObject(capabilityArgs) ? capabilityArgs : {},
    result: isJsonObject(result) ? result : undefined,
  }
}

function pair(value: unknown): [string, string][] {
  if (!Array.isArray(value) || value.length !== 2) return []
  const [key, text]: unknown[] = value
  return typeof key === "string" && typeof text === "string" ? [[key, text]] : []
}

/**
 * Returns the network list to cache. It is the file byte for byte, unless plugins of the network's directory run as
 * well: then these are added to the list, with `loadOnlyInlinedPlugins`, so that they are not appended twice.
 * Upstream's library and CRI-O can then read the list without that directory.
 */
export function effectiveConfig(network: Network): Uint8Array {
  if (!network.plugins.some((plugin) => plugin.fromDirectory)) return network.bytes
  const list = {
    ...parseJsonObject(network.bytes, "network configuration list"),
    plugins: network.plugins.map((plugin) => plugin.raw),
    loadOnlyInlinedPlugins: true,
  }
  return encodeUtf8(stringifyJson(list))
}

/** The input of CHECK and DEL: a network, and an attachment to it. */
export interface Attached {
  readonly network: Network
  readonly attachment: Attachment
}

/**
 * The kinds of cache files:
 *
 * - `legacy`: a bare result, as written by library 0.7.0.
 * - `foreign`: the file of another attachment whose names, joined with "-", are the same. It is neither used nor
 *   removed.
 * - `unreadable`: the file exists, but its content is unknown. So it is also unknown whether the attachment was added.
 */
export type CacheState =
  | { readonly state: "absent" }
  | { readonly state: "valid"; readonly attachment: CachedAttachment }
  | { readonly state: "legacy"; readonly result: JsonObject }
  | { readonly state: "foreign"; readonly owner: string }
  | { readonly state: "invalid"; readonly reason: string }
  | { readonly state: "unreadable"; readonly error: CniError }

/**
 * Returns the input of CHECK and DEL: the network list of the ADD with its version, from the cache, even if the
 * network's files have changed since. A plugin added to the network later does not run; a plugin removed from it does.
 * Arguments and capability values are the caller's, or those of ADD if the caller gives none. Without a usable cache
 * file everything is the caller's. To delete by today's configuration, remove the cache file.
 */
export function asAdded(cached: CacheState, { network, attachment }: Attached): Attached {
  if (cached.state !== "valid") return { network, attachment }
  const { args, capabilityArgs } = cached.attachment
  return {
    network: networkOfAdd(cached.attachment, network) ?? network,
    attachment: {
      ...attachment,
      args: attachment.args.length > 0 ? attachment.args : args,
      capabilityArgs:
        Object.keys(attachment.capabilityArgs).length > 0
          ? attachment.capabilityArgs
          : (capabilityArgs as CapabilityArgs),
    },
  }
}

/** Returns the cached network list, or `undefined` if it cannot be used. */
function networkOfAdd({ config, configComplete }: CachedAttachment, given: Network): Network | undefined {
  const list = tryParse(config)
  if (list === undefined || list.name !== given.name) return undefined
  // Upstream's library caches only the file. Plugins of the directory may have run as well, and an unnecessary DEL is
  // harmless.
  const mayLack = !configComplete && !list.loadOnlyInlinedPlugins
  const plugins = [...list.plugins, ...(mayLack ? given.plugins.filter((plugin) => plugin.fromDirectory) : [])]
  return plugins.length > 0 ? { ...list, plugins } : undefined
}

function tryParse(config: Uint8Array): NetworkList | undefined {
  try {
    const { plugins, type } = parseJsonObject(config)
    const single = plugins === undefined && type !== undefined // upstream's cache of a single plugin
    const list = single ? parseSinglePlugin(config) : parseNetworkList(config)
    atLeast(list.cniVersion, "0.1.0") // throws for an invalid version
    return list
  } catch {
    return undefined
  }
}
