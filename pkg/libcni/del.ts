import { atLeast, type CniError, type JsonObject } from "../types/mod.ts"
import { cacheKey, readCache, removeCache } from "./cache.ts"
import { type Attached, asAdded, type CacheState } from "./cached.ts"
import { requireAttachment, requireNetwork, requireRuntime } from "./input.ts"
import { withContainer } from "./lock.ts"
import type { Attachment, Network, Runtime } from "./network.ts"
import { callPlugin, failedPlugin, joinErrors } from "./plugin-call.ts"
import { deriveRequest, inVersion } from "./request.ts"
import { throwIfStopped } from "./stop.ts"

/** What DEL does beyond upstream's library. */
export interface DelOptions {
  /** Leave the cached record, for an ADD with `again` that follows: a caller that is killed between the two can repeat both. */
  readonly keepRecord?: boolean
}

/**
 * Detaches a container from a network: runs every plugin, last to first, each with the cached result (from configuration
 * version 0.4.0 on). The plugins are those of the network as it was at ADD, which the cache keeps (`asAdded`); `network`
 * says which one is meant, and stands in when nothing usable is cached.
 *
 * A plugin that fails does not keep the others from cleaning up; all failures are thrown at the end, and then the cached
 * result stays for the next try. So does one that cannot be read: the plugins run without it, and the error says so. Works
 * without a cached result, and twice.
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

/** DEL for a caller who holds the container already. */
export async function deleteAttachment(
  runtime: Runtime,
  network: Network,
  attachment: Attachment,
  options: DelOptions = {},
): Promise<void> {
  const cached = readCache(runtime.cacheDir, cacheKey(network, attachment))
  await deleteWith(runtime, asAdded(cached, { network, attachment }), cached, options)
}

/** DEL with this very list of plugins; what is cached gives the result alone. */
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
      await callPlugin(runtime, "DEL", plugin.type, request, attachment)
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

/** The cached result if there is one that can be used: DEL goes on without. */
function usableResult(cached: CacheState, version: string): JsonObject | undefined {
  const result =
    cached.state === "valid" ? cached.attachment.result : cached.state === "legacy" ? cached.result : undefined
  try {
    return result && inVersion(result, version)
  } catch {
    return undefined
  }
}
