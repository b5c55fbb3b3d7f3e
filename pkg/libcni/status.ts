import { atLeast } from "../types/mod.ts"
import type { Network, Runtime } from "./network.ts"
import { callPlugin } from "./plugin-call.ts"
import { deriveRequest } from "./request.ts"

/**
 * Asks each plugin in order whether it could serve an ADD; throws the first "no" as it is: code 50 or 51. Below
 * configuration version 1.1.0 there is no such question, and nothing is run.
 */
export async function statusNetwork(runtime: Runtime, network: Network): Promise<void> {
  if (!atLeast(network.cniVersion, "1.1.0")) return
  for (const plugin of network.plugins) {
    await callPlugin(runtime, "STATUS", plugin.type, deriveRequest(network, plugin, {}))
  }
}
