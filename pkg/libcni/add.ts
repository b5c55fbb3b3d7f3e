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

/** What ADD does beyond upstream's library. */
export interface AddOptions {
  /** After a failure, run DEL for the whole chain: nothing stays behind. Otherwise the caller owes that DEL. */
  readonly undo?: boolean
  /** Run the plugins although the attachment is cached, so added and not deleted. The specification forbids it. */
  readonly again?: boolean
}

/**
 * Attaches a container to a network: runs the plugins in order, each with the result of the one before, and keeps the
 * last result, and the network list, for CHECK and DEL. Returns that result, in the network's version.
 *
 * Before any plugin runs: all names are valid, all plugins are there, the cache can be written. Throws codes 3, 4, 5 and
 * 7 for these; a plugin's own error as `plugin type="…" failed (add): …`, with its code.
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
      const capabilityArgs = attachment.capabilityArgs as JsonObject // checked
      cache.commit({ ...attachment, capabilityArgs, network: network.name, config, configComplete: true, result })
      return result as unknown as ResultDocument // `chainResult` has read it as one
    } catch (error) {
      // Also when the caller has interrupted the ADD; not when another process is at work by now.
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
      result = chainResult(await callPlugin(runtime, "ADD", plugin.type, request, attachment), network.cniVersion)
    } catch (error) {
      throw failedPlugin(plugin, "add", error)
    }
  }
  if (result === undefined) throw new CniError(Code.InvalidNetworkConfig, `Network "${network.name}" has no plugins`)
  return result
}

/** The file of another attachment must not be overwritten, and one attachment is not added twice. */
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
    `Cannot add ${describeAttachment(network, key)}: it is attached already`,
    {
      details: "delete it first, or use another interface name",
    },
  )
}

/** DEL for the whole chain, also for plugins that were never reached. */
async function undo(runtime: Runtime, network: Network, attachment: Attachment): Promise<void> {
  try {
    await deleteWith(runtime, { network, attachment }, readCache(runtime.cacheDir, cacheKey(network, attachment)))
  } catch (error) {
    runtime.stderr(encodeUtf8(`Cannot undo the failed ADD completely: ${error}\n`))
  }
}
