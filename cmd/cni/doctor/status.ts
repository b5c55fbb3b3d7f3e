import { type Network, type Runtime, statusNetwork } from "../../../pkg/libcni/mod.ts"
import { atLeast, CniError, Code, isCniError } from "../../../pkg/types/mod.ts"
import type { Finding } from "./finding.ts"

/**
 * Asks the plugins of a network whether they could serve an ADD; also where its version has no such question, as long as they
 * speak one that has.
 */
export async function checkStatus(runtime: Runtime, network: Network): Promise<Finding[]> {
  try {
    await statusNetwork(runtime, atLeast(network.cniVersion, "1.1.0") ? network : { ...network, cniVersion: "1.1.0" })
    return []
  } catch (error) {
    if (isCniError(error, Code.IncompatibleVersion)) return []
    const said =
      error instanceof CniError ? [error.message, error.details].filter((part) => part).join(": ") : String(error)
    const feature = /the kernel has no [^;]*/.exec(said)?.[0]
    return [
      {
        rule: feature === undefined ? "status" : "kernel-feature",
        severity: "error",
        network: network.name,
        what: `network "${network.name}" cannot take containers: ${said}`,
        why:
          feature === undefined
            ? "every ADD would fail for this reason"
            : "the kernel lacks what the network is made of",
        remedy:
          feature === undefined
            ? `docs/errors.md has the words; cni status ${network.name} asks again`
            : "modprobe the module that is named, or take another kernel",
      },
    ]
  }
}
