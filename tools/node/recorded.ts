import { type NetworkPlugin, parseNetworkList } from "../../pkg/libcni/mod.ts"

/** The network list that a record has of the ADD: read when it is first looked at, since a node has hundreds of the same. */
export class RecordedNetwork {
  readonly #config: Uint8Array
  #read = false
  #plugins: readonly NetworkPlugin[] | undefined

  constructor(config: Uint8Array) {
    this.#config = config
  }

  /** Undefined where it cannot be read. */
  get plugins(): readonly NetworkPlugin[] | undefined {
    if (!this.#read) this.#plugins = tryParse(this.#config)
    this.#read = true
    return this.#plugins
  }
}

/** A record of a cache; one that was read alone has its configuration as bytes only. */
interface WithNetwork {
  readonly config: Uint8Array
  readonly recorded?: RecordedNetwork
}

/** The plugins of the network at the ADD of an attachment; undefined where that is not known. */
export function recordedPlugins(cached: WithNetwork | undefined): readonly NetworkPlugin[] | undefined {
  return cached && (cached.recorded ?? new RecordedNetwork(cached.config)).plugins
}

function tryParse(config: Uint8Array): readonly NetworkPlugin[] | undefined {
  try {
    return parseNetworkList(config).plugins
  } catch {
    return undefined
  }
}
