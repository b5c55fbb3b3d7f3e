import { atLeast, CniError, Code, type JsonObject } from "../types/mod.ts"
import { cacheKey, describeAttachment } from "./attachment.ts"
import { readCache } from "./cache.ts"
import { inVersion } from "./chain-result.ts"
import { withContainer } from "./lock.ts"
import type { Attachment, Network, Runtime } from "./network.ts"
import { callPlugin } from "./plugin-call.ts"
import { deriveRequest } from "./request.ts"

/**
 * Asks every plugin, in order, whether the attachment is still as the cached result says; stops at the first that says
 * no and throws its error as it is. Does nothing when the network has `disableCheck`. Throws code 1 for a configuration
 * below 0.4.0, and code 3 without a usable cached result: there is nothing to compare with.
 */
export async function checkNetwork(runtime: Runtime, network: Network, attachment: Attachment): Promise<void> {
  if (network.disableCheck) return
  if (!atLeast(network.cniVersion, "0.4.0")) {
    throw new CniError(
      Code.IncompatibleVersion,
      `configuration version "${network.cniVersion}" does not support the CHECK command`,
    )
  }
  cacheKey(network, attachment)
  await withContainer(runtime, attachment.containerId, async () => {
    const prevResult = requiredResult(runtime, network, attachment)
    for (const plugin of network.plugins) {
      const request = deriveRequest(network, plugin, { capabilityArgs: attachment.capabilityArgs, prevResult })
      await callPlugin(runtime, "CHECK", plugin.type, request, attachment)
    }
  })
}

function requiredResult(runtime: Runtime, network: Network, attachment: Attachment): JsonObject {
  const cached = readCache(runtime.cacheDir, cacheKey(network, attachment))
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
