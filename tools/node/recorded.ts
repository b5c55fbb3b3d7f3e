import { type Network, type NetworkPlugin, parseNetworkList } from "../../pkg/libcni/mod.ts"
import { foreign, foreignValue } from "./foreign.ts"

/** The network list that a record has of the ADD: read when it is first looked at, since a node has hundreds of the same. */
export class RecordedNetwork {
  readonly #config: Uint8Array
  #read = false
  #network: Network | undefined

  constructor(config: Uint8Array) {
    this.#config = config
  }

  /** Undefined where it cannot be read. */
  get network(): Network | undefined {
    if (!this.#read) this.#network = tryParse(this.#config)
    this.#read = true
    return this.#network
  }
}

/** A record of a cache; one that was read alone has its configuration as bytes only. */
interface WithNetwork {
  readonly config: Uint8Array
  readonly recorded?: RecordedNetwork
}

/** The network at the ADD of an attachment; undefined where that is not known. */
export function recordedNetwork(cached: WithNetwork | undefined): Network | undefined {
  return cached && (cached.recorded ?? new RecordedNetwork(cached.config)).network
}

/** The plugins of the network at the ADD of an attachment; undefined where that is not known. */
export function recordedPlugins(cached: WithNetwork | undefined): readonly NetworkPlugin[] | undefined {
  return recordedNetwork(cached)?.plugins
}

/** The network with types and values that can be shown. */
export function foreignNetwork<T extends Network>(network: T): T {
  const plugins = network.plugins.map((plugin) => ({
    ...plugin,
    type: foreign(plugin.type),
    raw: foreignValue(plugin.raw),
  }))
  return { ...network, plugins }
}

function tryParse(config: Uint8Array): Network | undefined {
  try {
    return foreignNetwork(parseNetworkList(config))
  } catch {
    return undefined
  }
}
