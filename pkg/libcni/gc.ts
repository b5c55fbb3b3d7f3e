import { atLeast, CniError, Code } from "../types/mod.ts"
import { cachedAttachments } from "./cache.ts"
import type { CachedAttachment } from "./cached.ts"
import { deleteAttachment } from "./del.ts"
import { requireNetwork, requireRuntime, requireValidSet } from "./input.ts"
import { withEverything } from "./lock.ts"
import type { AttachmentId, Network, Runtime } from "./network.ts"
import { callPlugin, failedPlugin, joinErrors } from "./plugin-call.ts"
import { deriveRequest } from "./request.ts"

/** The valid attachments. A function is called while no other operation runs, so that it sees the current cache. */
export type ValidSet = readonly AttachmentId[] | (() => readonly AttachmentId[] | Promise<readonly AttachmentId[]>)

/**
 * Removes the remains of attachments that are not `valid`. Runs DEL for each such attachment in the cache of this
 * network, with the plugins of its own ADD, as in `delNetwork`. Then, from configuration version 1.1.0 on, runs GC for
 * every plugin of `network`. Continues after errors and throws all of them at the end. An empty list means that no
 * attachment is valid; there is no value for "unknown". Does nothing if the network has `disableGC`.
 *
 * No ADD, DEL or CHECK with this cache directory runs at the same time. Throws code 5 if the cache cannot be listed.
 */
export async function gcNetwork(caller: Runtime, network: Network, validSet: ValidSet): Promise<void> {
  requireRuntime(caller)
  requireNetwork(network)
  if (network.disableGC) return
  await withEverything(caller, async (runtime) => {
    const valid = typeof validSet === "function" ? await validSet() : validSet
    requireValidSet(valid)
    const errors: CniError[] = []
    const attempt = async (run: () => Promise<unknown>, wrap: (error: unknown) => CniError) => {
      try {
        await run()
      } catch (error) {
        errors.push(wrap(error))
      }
    }
    for (const stale of staleAttachments(runtime, network, valid)) {
      await attempt(
        () => deleteAttachment(runtime, network, stale),
        (error) => failedDelete(stale, error),
      )
    }
    for (const plugin of atLeast(network.cniVersion, "1.1.0") ? network.plugins : []) {
      const request = deriveRequest(network, plugin, { validAttachments: valid })
      await attempt(
        () => callPlugin(runtime, { operation: "GC", type: plugin.type, request }),
        (error) => failedPlugin(plugin, "gc", error),
      )
    }
    const failure = joinErrors(errors)
    if (failure) throw failure
  })
}

/** Returns the cached attachments of a network that are not valid, which a GC would delete. Throws code 5. */
export function staleAttachments(
  runtime: Pick<Runtime, "cacheDir">,
  network: Network,
  valid: readonly AttachmentId[],
): CachedAttachment[] {
  requireValidSet(valid)
  const kept = new Set(valid.map(({ containerId, ifName }) => `${containerId}/${ifName}`))
  return cachedAttachments(runtime.cacheDir).filter(
    ({ network: name, containerId, ifName }) => name === network.name && !kept.has(`${containerId}/${ifName}`),
  )
}

function failedDelete({ containerId, ifName }: AttachmentId, error: unknown): CniError {
  const known = error instanceof CniError ? error : undefined
  return new CniError(known?.code ?? Code.Internal, `Cannot delete stale "${containerId}/${ifName}": ${error}`, {
    details: "",
    cause: error,
  })
}
