import { atLeast, CniError, Code, type JsonObject } from "../types/mod.ts"
import { cacheKey, describeAttachment } from "./attachment.ts"
import { type CacheState, readCache } from "./cache.ts"
import { inVersion } from "./chain-result.ts"
import { type Attached, asAdded } from "./effective.ts"
import { withContainer } from "./lock.ts"
import type { Attachment, Network, Runtime } from "./network.ts"
import { callPlugin } from "./plugin-call.ts"
import { deriveRequest } from "./request.ts"

/**
 * Asks every plugin, in order, whether the attachment is still as the cached result says; stops at the first that says
 * no and throws its error as it is. As in `delNetwork` the plugins are those that the cache has from ADD. Throws code 1
 * for a configuration below 0.4.0, and code 3 without a usable cached result: there is nothing to compare with.
 *
 * Answers false when nothing was asked: the network has `disableCheck`, or had it at ADD.
 */
export async function checkNetwork(runtime: Runtime, network: Network, attachment: Attachment): Promise<boolean> {
  if (network.disableCheck) return false
  const key = cacheKey(network, attachment)
  return withContainer(runtime, attachment.containerId, async () => {
    const cached = readCache(runtime.cacheDir, key)
    const added = asAdded(cached, { network, attachment })
    if (added.network.disableCheck) return false
    await askPlugins(runtime, added, cached)
    return true
  })
}

async function askPlugins(runtime: Runtime, { network, attachment }: Attached, cached: CacheState): Promise<void> {
  if (!atLeast(network.cniVersion, "0.4.0")) {
    throw new CniError(
      Code.IncompatibleVersion,
      `configuration version "${network.cniVersion}" does not support the CHECK command`,
    )
  }
  const prevResult = requiredResult({ network, attachment }, cached)
  for (const plugin of network.plugins) {
    const request = deriveRequest(network, plugin, { capabilityArgs: attachment.capabilityArgs, prevResult })
    await callPlugin(runtime, "CHECK", plugin.type, request, attachment)
  }
}

function requiredResult({ network, attachment }: Attached, cached: CacheState): JsonObject {
  const refuse = (reason: string, cause?: unknown) =>
    new CniError(Code.UnknownContainer, `Cannot check ${describeAttachment(network, attachment)}: ${reason}`, {
      ...(cause === undefined ? {} : { cause }),
    })
  if (cached.state === "absent") throw refuse("no cached result, so it was not added or is deleted already")
  if (cached.state === "invalid") throw refuse(`the cached result is broken: ${cached.reason}`)
  if (cached.state === "foreign") throw refuse(`its cache file belongs to ${cached.owner}`)
  const result = cached.state === "valid" ? cached.attachment.result : cached.result
  if (result === undefined) throw refuse("its cache file holds no result")
  try {
    return inVersion(result, network.cniVersion)
  } catch (cause) {
    throw refuse(`failed to convert cached result to config version "${network.cniVersion}"`, cause)
  }
}
