import { isJsonObject, type JsonObject } from "../types/mod.ts"
import type { Attachment } from "./network.ts"

/** The `kind` of the files, as upstream writes it. */
export const cacheKind = "cniCacheV1"

/** What is kept of an attachment between ADD and DEL, in upstream's layout: CRI-O reads these files by itself. */
export interface CachedAttachment extends Attachment {
  readonly network: string
  /** The network list as it was at ADD. */
  readonly config: Uint8Array
  /** Whether all plugins that ran are in `config`: upstream's library leaves out those of the network's directory. */
  readonly configComplete: boolean
  /** What the last plugin printed. */
  readonly result: JsonObject | undefined
}

/** The content of a cache file: upstream's keys, and `configComplete`, which upstream ignores. */
export function encodeCached(attachment: CachedAttachment): JsonObject {
  return {
    kind: cacheKind,
    containerId: attachment.containerId,
    config: Buffer.from(attachment.config).toString("base64"),
    ...(attachment.configComplete ? { configComplete: true } : {}),
    ifName: attachment.ifName,
    networkName: attachment.network,
    ...(attachment.netns === "" ? {} : { netns: attachment.netns }),
    ...(attachment.args.length === 0 ? {} : { cniArgs: attachment.args.map(([key, value]) => [key, value]) }),
    ...(Object.keys(attachment.capabilityArgs).length === 0 ? {} : { capabilityArgs: attachment.capabilityArgs }),
    ...(attachment.result === undefined ? {} : { result: attachment.result }),
  }
}

/** Reads the content of a cache file of this kind; `undefined` when it does not say whose it is. */
export function decodeCached(value: JsonObject): CachedAttachment | undefined {
  const { containerId, ifName, networkName, netns, config, configComplete, cniArgs, capabilityArgs, result } = value
  if (![containerId, ifName, networkName].every((part) => typeof part === "string" && part !== "")) return undefined
  return {
    containerId: String(containerId),
    ifName: String(ifName),
    network: String(networkName),
    netns: typeof netns === "string" ? netns : "",
    config: typeof config === "string" ? Buffer.from(config, "base64") : new Uint8Array(),
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
