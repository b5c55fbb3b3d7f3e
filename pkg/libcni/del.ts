import { atLeast, type CniError, type JsonObject } from "../types/mod.ts"
import { cacheKey, readCache, removeCache } from "./cache.ts"
import { type Attached, asAdded, type CacheState } from "./cached.ts"
import { requireAttachment, requireNetwork, requireRuntime } from "./input.ts"
import { withContainer } from "./lock.ts"
import type { Attachment, Network, Runtime } from "./network.ts"
import { callPlugin, failedPlugin, joinErrors } from "./plugin-call.ts"
import { deriveRequest, inVersion } from "./request.ts"
import { throwIfStopped } from "./stop.ts"

/** Options of DEL beyond upstream's library. */
export interface DelOptions {
  /** Whether to keep the record for an ADD with `again`. A caller that is killed before the ADD can repeat both. */
  readonly keepRecord?: boolean
}

/**
 * Detaches a container from a network. Runs every plugin, last to first, each with the cached result (from
 * configuration version 0.4.0 on). The plugins are those of the network at ADD, from the cache (`asAdded`). If the
 * cache has no usable plugins, runs those of `network`.
 *
 * A failing plugin does not stop the others from cleaning up. Throws all failures at the end, and the cached result
 * stays for the next attempt. An unreadable result stays as well: the plugins run without it, and the error mentions
 * it. Works without a cached result, and can be repeated.
 */
export async function delNetwork(
  runtime: Runtime,
  network: Network,
  attachment: Attachment,
  options: DelOptions = {},
): Promise<void> {
  requireRuntime(runtime)
  requireNetwork(network)
  requireAttachment(attachment)
  cacheKey(network, attachment)
  const run = (guarded: Runtime) => deleteAttachment(guarded, network, attachment, options)
  await withContainer(runtime, attachment.containerId, run, { ifPossible: true })
}

/** Runs DEL for a caller that already holds the container's lock. */
export async function deleteAttachment(
  runtime: Runtime,
  network: Network,
  attachment: Attachment,
  options: DelOptions = {},
): Promise<void> {
  const cached = readCache(runtime.cacheDir, cacheKey(network, attachment))
  await deleteWith(runtime, asAdded(cached, { network, attachment }), cached, options)
}

/** Runs DEL with the plugins of `attached`. Takes only the result from the cache. */
export async function deleteWith(
  runtime: Runtime,
  attached: Attached,
  cached: CacheState,
  { keepRecord = false }: DelOptions = {},
): Promise<void> {
  const { network, attachment } = attached
  const prevResult = atLeast(network.cniVersion, "0.4.0") ? usableResult(cached, network.cniVersion) : undefined

  const errors: CniError[] = []
  for (const plugin of network.plugins.toReversed()) {
    try {
      const request = deriveRequest(network, plugin, { capabilityArgs: attachment.capabilityArgs, prevResult })
      await callPlugin(runtime, { operation: "DEL", type: plugin.type, request, parameters: attachment })
    } catch (error) {
      errors.push(failedPlugin(plugin, "delete", error))
    }
  }
  if (cached.state === "unreadable") errors.push(cached.error)
  const failure = joinErrors(errors)
  if (failure) throw failure
  throwIfStopped(runtime.signal)
  if (!keepRecord && cached.state !== "absent" && cached.state !== "foreign") {
    removeCache(runtime.cacheDir, cacheKey(network, attachment))
  }
}

/** Returns the cached result, or undefined if it is unusable, because DEL continues without it. */
function usableResult(cached: CacheState, version: string): JsonObject | undefined {
  const result =
    cached.state === "valid" ? cached.attachment.result : cached.state === "legacy" ? cached.result : undefined
  try {
    return result && inVersion(result, version)
  } catch {
    return undefined
  }
}
