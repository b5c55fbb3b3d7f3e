import { type HostLocalConfig, parseHostLocalConfig } from "../../ipam/host-local/main.ts"
import { basename } from "../../pkg/libc/mod.ts"
import { loadNetworkFile, type Network, networkFiles } from "../../pkg/libcni/mod.ts"
import {
  isJsonObject,
  type JsonObject,
  member,
  messageOf,
  newestVersion,
  parseNetworkConfig,
} from "../../pkg/types/mod.ts"
import { foreign } from "./foreign.ts"
import { foreignNetwork } from "./recorded.ts"

/** A file of the configuration directory, with its network or the reason why it is unusable. */
export interface NetworkFile {
  readonly file: string
  readonly network?: Network
  readonly error?: string
  /** The configurations of host-local. Empty for a network without host-local. */
  readonly pools: readonly HostLocalConfig[]
}

/** Reads the networks of a directory in the order in which runtimes search it. Throws a `CniError` with code 5. */
export function readNetworks(confDir: string): NetworkFile[] {
  return networkFiles(confDir).map((file): NetworkFile => {
    try {
      const network = foreignNetwork(loadNetworkFile(file))
      return { file, network, ...poolsOf(network) }
    } catch (error) {
      return { file, error: foreign(`${basename(file)}: ${messageOf(error)}`), pools: [] }
    }
  })
}

function poolsOf(network: Network): { pools: HostLocalConfig[]; error?: string } {
  try {
    return { pools: network.plugins.flatMap(({ raw }) => hostLocalOf(network.name, raw) ?? []) }
  } catch (error) {
    return { pools: [], error: foreign(messageOf(error)) }
  }
}

function hostLocalOf(name: string, plugin: JsonObject): HostLocalConfig | undefined {
  const raw: JsonObject = { ...plugin, name, cniVersion: newestVersion }
  const network = parseNetworkConfig(raw, { lenient: true })
  if (network.ipam?.type !== "host-local") return undefined
  return parseHostLocalConfig(network, { verb: "STATUS", args: "", raw })
}

export function ipamOf(plugin: JsonObject): JsonObject | undefined {
  const ipam = member(plugin, "ipam")
  return isJsonObject(ipam) ? ipam : undefined
}
