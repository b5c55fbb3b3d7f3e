import { atLeast, CniError, Code, isCniError, type JsonObject } from "../types/mod.ts"
import { cacheKey, describeAttachment, readCache } from "./cache.ts"
import { type Attached, asAdded, type CacheState } from "./cached.ts"
import { requireAttachment, requireNetwork, requireRuntime } from "./input.ts"
import { withContainer } from "./lock.ts"
import type { Attachment, Network, Runtime } from "./network.ts"
import { callPlugin } from "./plugin-call.ts"
import { deriveRequest, inVersion } from "./request.ts"
import { throwIfStopped } from "./stop.ts"

/** The error if the configuration's version has no CHECK. This is a separate class, because plugins also use code 1. */
export class CheckNotSupported extends CniError {
  constructor(cniVersion: string) {
    super(Code.IncompatibleVersion, `configuration version "${cniVersion}" does not support the CHECK command`)
  }
}

/**
 * Runs CHECK of every plugin in order. Stops at the first failure and throws the plugin's error unchanged. As in
 * `delNetwork`, the plugins are those of the cached ADD. Throws `CheckNotSupported` for a configuration below 0.4.0,
 * code 4 if this attachment is not cached, code 6 if the cached data cannot be used, and code 5 if it cannot be read.
 * Never throws code 3, because that would also mean that there is nothing to clean up.
 *
 * Returns false if no plugin ran, because the network has `disableCheck` or had it at ADD.
 */
export async function checkNetwork(runtime: Runtime, network: Network, attachment: Attachment): Promise<boolean> {
  requireRuntime(runtime)
  requireNetwork(network)
  requireAttachment(attachment)
  if (network.disableCheck) return false
  const key = cacheKey(network, attachment)
  return withContainer(runtime, attachment.containerId, async (guarded) => {
    const cached = readCache(runtime.cacheDir, key)
    const added = asAdded(cached, { network, attachment })
    if (added.network.disableCheck) return false
    await askPlugins(guarded, added, cached)
    return true
  })
}

/** A plugin's answer to CHECK. `error` is undefined after a success. */
export interface CheckAnswer {
  readonly type: string
  readonly error: CniError | undefined
}

/** Like `checkNetwork`, but continues after a failure. Returns the answer of each plugin. */
export async function checkEachPlugin(
  runtime: Runtime,
  network: Network,
  attachment: Attachment,
): Promise<{ readonly answers: readonly CheckAnswer[]; readonly result: JsonObject; readonly added: Attached }> {
  requireRuntime(runtime)
  requireNetwork(network)
  requireAttachment(attachment)
  const key = cacheKey(network, attachment)
  return withContainer(runtime, attachment.containerId, async (guarded) => {
    const cached = readCache(runtime.cacheDir, key)
    const added = asAdded(cached, { network, attachment })
    const prevResult = requiredResult(added, cached)
    const answers: CheckAnswer[] = []
    for (const plugin of added.network.plugins) {
      const request = deriveRequest(added.network, plugin, {
        capabilityArgs: added.attachment.capabilityArgs,
        prevResult,
      })
      try {
        await callPlugin(guarded, { operation: "CHECK", type: plugin.type, request, parameters: added.attachment })
        answers.push({ type: plugin.type, error: undefined })
      } catch (error) {
        throwIfStopped(guarded.signal)
        if (!isCniError(error)) throw error
        answers.push({ type: plugin.type, error })
      }
    }
    return { answers, result: prevResult, added }
  })
}

async function askPlugins(runtime: Runtime, { network, attachment }: Attached, cached: CacheState): Promise<void> {
  if (!atLeast(network.cniVersion, "0.4.0")) {
    throw new CheckNotSupported(network.cniVersion)
  }
  const prevResult = requiredResult({ network, attachment }, cached)
  for (const plugin of network.plugins) {
    const request = deriveRequest(network, plugin, { capabilityArgs: attachment.capabilityArgs, prevResult })
    await callPlugin(runtime, { operation: "CHECK", type: plugin.type, request, parameters: attachment })
  }
}

function requiredResult({ network, attachment }: Attached, cached: CacheState): JsonObject {
  const refuse = (code: number, reason: string, cause?: unknown) =>
    new CniError(code, `Cannot check ${describeAttachment(network, attachment)}: ${reason}`, {
      ...(cause === undefined ? {} : { cause }),
    })
  const { InvalidEnvironment, Decoding } = Code
  if (cached.state === "absent") {
    throw refuse(InvalidEnvironment, "no cached result: it was not added, or is already deleted")
  }
  if (cached.state === "foreign") throw refuse(InvalidEnvironment, `its cache file belongs to ${cached.owner}`)
  if (cached.state === "invalid") throw refuse(Decoding, `the cached result is broken: ${cached.reason}`)
  if (cached.state === "unreadable") throw cached.error
  const result = cached.state === "valid" ? cached.attachment.result : cached.result
  if (result === undefined) throw refuse(Decoding, "its cache file holds no result")
  try {
    return inVersion(result, network.cniVersion)
  } catch (cause) {
    throw refuse(Decoding, `failed to convert cached result to config version "${network.cniVersion}"`, cause)
  }
}
