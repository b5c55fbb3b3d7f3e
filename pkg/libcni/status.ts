import { readVersions } from "../invoke/mod.ts"
import { atLeast, CniError, Code, isCniError, newestVersion } from "../types/mod.ts"
import { requireNetwork, requireRuntime } from "./input.ts"
import type { Network, NetworkPlugin, Runtime } from "./network.ts"
import { callPlugin } from "./plugin-call.ts"
import { deriveRequest, enabledCapabilities } from "./request.ts"

/**
 * Runs STATUS of each plugin in order, to find out whether it can serve an ADD. Throws the first refusal unchanged:
 * code 50 or 51. If the network's version is below 1.1.0, which has no STATUS, runs no plugin.
 */
export async function statusNetwork(runtime: Runtime, network: Network): Promise<void> {
  requireRuntime(runtime)
  requireNetwork(network)
  if (!atLeast(network.cniVersion, "1.1.0")) return
  for (const plugin of network.plugins) {
    await callPlugin(runtime, { operation: "STATUS", type: plugin.type, request: deriveRequest(network, plugin, {}) })
  }
}

/** Returns a plugin's protocol versions; 0.1.0 for one without VERSION. Throws code 6 for a malformed answer. */
export async function pluginVersions(runtime: Runtime, type: string): Promise<string[]> {
  requireRuntime(runtime)
  const dummy = { netns: "dummy", ifName: "dummy", path: "dummy" } // very old plugins require them
  try {
    const answer = await callPlugin(runtime, {
      operation: "VERSION",
      type,
      request: { cniVersion: newestVersion },
      parameters: dummy,
    })
    return readVersions(answer, `plugin "${type}"`)
  } catch (error) {
    if (isCniError(error) && error.toString() === "unknown CNI_COMMAND: VERSION") return ["0.1.0"]
    throw error
  }
}

/**
 * Checks, without attaching a container, that every plugin of a network is installed and supports the network's
 * version. Returns the names of the capabilities that the network uses. Throws one error with all problems.
 */
export async function validateNetwork(runtime: Runtime, network: Network): Promise<string[]> {
  requireNetwork(network)
  const errors: CniError[] = []
  for (const type of new Set(network.plugins.map((plugin) => plugin.type))) {
    try {
      await requireVersion(runtime, type, network.cniVersion === "" ? "0.1.0" : network.cniVersion)
    } catch (error) {
      errors.push(isCniError(error) ? error : new CniError(Code.Internal, String(error)))
    }
  }
  const [first] = errors
  if (first) throw new CniError(first.code, `[${errors.map(String).join(" ")}]`, { details: "", cause: first })
  return [...new Set(network.plugins.flatMap((plugin: NetworkPlugin) => enabledCapabilities(plugin)))]
}

async function requireVersion(runtime: Runtime, type: string, version: string): Promise<void> {
  const versions = await pluginVersions(runtime, type)
  if (versions.includes(version)) return
  throw new CniError(
    Code.IncompatibleVersion,
    `plugin ${type} does not support config version "${version}"; it supports ${versions.join(", ")}`,
  )
}
