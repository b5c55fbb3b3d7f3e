import { type Network, type NetworkPlugin, parseNetworkList } from "../../pkg/libcni/mod.ts"
import { foreign, foreignValue } from "./foreign.ts"
import type { NameOf } from "./plugin-names.ts"

/** The network list that a record has of the ADD: read when it is first looked at, since a node has hundreds of the same. */
export class RecordedNetwork {
  readonly #config: Uint8Array
  readonly #nameOf: NameOf
  #read = false
  #network: Network | undefined
  #plugins: readonly NetworkPlugin[] | undefined

  constructor(config: Uint8Array, nameOf: NameOf = (type) => type) {
    this.#config = config
    this.#nameOf = nameOf
  }

  /** Undefined where it cannot be read. */
  get network(): Network | undefined {
    if (!this.#read) this.#network = tryParse(this.#config)
    this.#read = true
    return this.#network
  }

  /** Its plugins by their own names; undefined where it cannot be read. */
  get plugins(): readonly NetworkPlugin[] | undefined {
    this.#plugins ??= this.network?.plugins.map((plugin) => ({ ...plugin, type: this.#nameOf(plugin.type) }))
    return this.#plugins
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
  return cached && (cached.recorded ?? new RecordedNetwork(cached.config)).plugins
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
