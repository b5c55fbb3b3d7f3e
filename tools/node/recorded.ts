import { type Network, type NetworkPlugin, parseNetworkList } from "../../pkg/libcni/mod.ts"
import { foreign, foreignValue } from "./foreign.ts"
import type { NameOf } from "./plugin-names.ts"

/** The network list in the record of an ADD. Parsed on first use, because a node has hundreds of equal lists. */
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

  /** The parsed network. Undefined if the record is unreadable. */
  get network(): Network | undefined {
    if (!this.#read) this.#network = tryParse(this.#config)
    this.#read = true
    return this.#network
  }

  /** The plugins, with their types replaced by plugin names. Undefined if the network is unreadable. */
  get plugins(): readonly NetworkPlugin[] | undefined {
    this.#plugins ??= this.network?.plugins.map((plugin) => ({ ...plugin, type: this.#nameOf(plugin.type) }))
    return this.#plugins
  }
}

/** A cache record. `recorded` is absent if it was not read together with other records. */
interface WithNetwork {
  readonly config: Uint8Array
  readonly recorded?: RecordedNetwork
}

/** Returns the network with which an attachment was added, or undefined if unknown. */
export function recordedNetwork(cached: WithNetwork | undefined): Network | undefined {
  return cached && (cached.recorded ?? new RecordedNetwork(cached.config)).network
}

/** Returns the plugins with which an attachment was added, or undefined if unknown. */
export function recordedPlugins(cached: WithNetwork | undefined): readonly NetworkPlugin[] | undefined {
  return cached && (cached.recorded ?? new RecordedNetwork(cached.config)).plugins
}

/** Returns the network with types and values of its plugins escaped. */
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
