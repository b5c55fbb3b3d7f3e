import {
  type Network,
  type NetworkPlugin,
  pluginVersions,
  type Runtime,
  statusNetwork,
  validateNetwork,
} from "../../pkg/libcni/mod.ts"
import { atLeast, CniError, Code, isCniError } from "../../pkg/types/mod.ts"
import type { Finding } from "./finding.ts"

/** The first version of the CNI specification with STATUS. */
const WITH_STATUS = "1.1.0"

/** Calls STATUS of the plugins that support it, even if the network's own version does not have it. */
export async function checkStatus(runtime: Runtime, network: Network): Promise<Finding[]> {
  const isAsked = atLeast(network.cniVersion, WITH_STATUS)
  const asked = isAsked ? network : { ...network, cniVersion: WITH_STATUS }
  try {
    await statusNetwork(runtime, asked)
    return []
  } catch (error) {
    if (isCniError(error, Code.IncompatibleVersion)) return []
    const speaking = await withStatus(runtime, network.plugins)
    if (speaking.length === network.plugins.length) return [finding(network, error)]
    try {
      if (isAsked) await validateNetwork(runtime, network)
      else await statusNetwork(runtime, { ...asked, plugins: speaking })
      return []
    } catch (cause) {
      return [finding(network, cause)]
    }
  }
}

/** Returns the plugins that support STATUS. Omits others, because they may return anything. */
async function withStatus(runtime: Runtime, plugins: readonly NetworkPlugin[]): Promise<NetworkPlugin[]> {
  const found: NetworkPlugin[] = []
  for (const plugin of plugins) {
    try {
      if ((await pluginVersions(runtime, plugin.type)).includes(WITH_STATUS)) found.push(plugin)
    } catch {
      found.push(plugin) // the plugin is missing or broken, as STATUS reports
    }
  }
  return found
}

function finding(network: Network, error: unknown): Finding {
  const said =
    error instanceof CniError ? [error.message, error.details].filter((part) => part).join(": ") : String(error)
  const feature = /the kernel has no [^;]*/.exec(said)?.[0]
  return {
    rule: feature === undefined ? "status" : "kernel-feature",
    severity: "error",
    network: network.name,
    what: `network "${network.name}" cannot attach containers: ${said}`,
    why:
      feature === undefined
        ? "every ADD would fail for this reason"
        : "the kernel lacks a feature that the network needs",
    remedy:
      feature === undefined
        ? `correct the fault in the message: cni explain describes it, and cni status ${network.name} checks again`
        : "load the named module with modprobe, or use a kernel that has it",
    consequenceOf: [
      "plugin-missing",
      "plugin-not-executable",
      "plugin-noexec",
      "plugin-not-runnable",
      "disk-read-only",
      "disk-full",
      "state-exposed",
      "store-locked",
    ],
  }
}
