import { encodeUtf8 } from "../engine/mod.ts"
import { CniError, Code, type JsonObject } from "../types/mod.ts"
import { type CacheKey, cacheKey, describeAttachment, openCache, readCache } from "./cache.ts"
import { effectiveConfig } from "./cached.ts"
import { deleteWith } from "./del.ts"
import { requireAttachment, requireRuntime, requireWholeNetwork } from "./input.ts"
import { withContainer } from "./lock.ts"
import type { Attachment, Network, Runtime } from "./network.ts"
import { callPlugin, failedPlugin, requirePlugins } from "./plugin-call.ts"
import { chainResult, deriveRequest } from "./request.ts"
import { throwIfStopped } from "./stop.ts"
import type { ResultDocument } from "./typed.ts"

/** Options of ADD beyond upstream's library. */
export interface AddOptions {
  /** Whether to run DEL for the whole chain after a failure. If false, the caller must run it. */
  readonly undo?: boolean
  /** Whether to run the plugins even if the attachment is cached and not deleted, which the specification forbids. */
  readonly again?: boolean
}

/**
 * Attaches a container to a network. Runs the plugins in order, each with the result of the previous one. Caches the
 * last result and the network list for CHECK and DEL. Returns that result in the network's version.
 *
 * Before any plugin runs, checks all names, finds all plugins, and opens the cache for writing. Throws codes 3, 4, 5
 * and 7 if one of these fails. Throws a plugin's own error as `plugin type="…" failed (add): …`, with its code.
 */
export async function addNetwork(
  runtime: Runtime,
  network: Network,
  attachment: Attachment,
  options: AddOptions = {},
): Promise<ResultDocument> {
  requireRuntime(runtime)
  requireWholeNetwork(network)
  requireAttachment(attachment)
  const key = cacheKey(network, attachment)
  return withContainer(runtime, attachment.containerId, async (guarded, lost) => {
    await requirePlugins(guarded, network)
    refuseTaken(runtime, network, key, options.again ?? false)
    using cache = openCache(runtime.cacheDir, key)
    try {
      const result = await runChain(guarded, network, attachment)
      const config = effectiveConfig(network)
      throwIfStopped(guarded.signal)
      const capabilityArgs = attachment.capabilityArgs as JsonObject // checked above
      cache.commit({ ...attachment, capabilityArgs, network: network.name, config, configComplete: true, result })
      return result as unknown as ResultDocument // `chainResult` has read it as a result
    } catch (error) {
      // Runs even if the caller has interrupted the ADD, but not if another process holds the lock now.
      if (options.undo && !lost.aborted) await undo({ ...runtime, signal: lost }, network, attachment)
      throw error
    }
  })
}

async function runChain(runtime: Runtime, network: Network, attachment: Attachment): Promise<JsonObject> {
  let result: JsonObject | undefined
  for (const plugin of network.plugins) {
    const request = deriveRequest(network, plugin, {
      capabilityArgs: attachment.capabilityArgs,
      prevResult: result,
    })
    try {
      result = chainResult(
        await callPlugin(runtime, { operation: "ADD", type: plugin.type, request, parameters: attachment }),
        network.cniVersion,
      )
    } catch (error) {
      throw failedPlugin(plugin, "add", error)
    }
  }
  if (result === undefined) throw new CniError(Code.InvalidNetworkConfig, `Network "${network.name}" has no plugins`)
  return result
}

/** Throws if the cache file belongs to another attachment, or if the attachment was already added. */
function refuseTaken(runtime: Runtime, network: Network, key: CacheKey, again: boolean): void {
  const cached = readCache(runtime.cacheDir, key)
  if (cached.state === "unreadable") throw cached.error
  if (cached.state === "foreign") {
    throw new CniError(Code.InvalidEnvironment, `Cannot cache ${describeAttachment(network, key)}`, {
      details: `its cache file is taken by ${cached.owner}: use another container ID`,
    })
  }
  if (again || (cached.state !== "valid" && cached.state !== "legacy")) return
  throw new CniError(
    Code.InvalidEnvironment,
    `Cannot add ${describeAttachment(network, key)}: it is already attached`,
    {
      details: "delete it first, or use another interface name",
    },
  )
}

/** Runs DEL for the whole chain, including plugins whose ADD did not run. */
async function undo(runtime: Runtime, network: Network, attachment: Attachment): Promise<void> {
  try {
    await deleteWith(runtime, { network, attachment }, readCache(runtime.cacheDir, cacheKey(network, attachment)))
  } catch (error) {
    runtime.stderr(encodeUtf8(`Cannot undo the failed ADD completely: ${error}\n`))
  }
}
