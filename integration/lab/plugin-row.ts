import type { Feature } from "./features.ts"
import type { HostNamespace } from "./host-namespace.ts"

/**
 * A plugin's role in an attachment: creates an interface, delegates to another plugin, moves a device, brings up `lo`,
 * assigns addresses, or follows other plugins.
 */
export type Role = Plugin["role"]

/** A network of a stage: "lab" has 10.22.0.0/24, "other" 10.23.0.0/24. */
export type Network = "lab" | "other"

/** The place of one attachment. */
export interface Place {
  readonly network: Network
  /** A port of the host. Each attachment of a stage has its own. */
  readonly port: number
}

/** The data that the shared cases need of every plugin. */
interface AnyPlugin {
  /** The features that it requires. Without one, its cases are skipped. */
  readonly needs?: readonly [Feature, ...Feature[]]
  /**
   * The plugin that covers most of the shared cases for this one too, on the same scaffold and on more kernels. This
   * plugin runs only cases about its kind of link, see `testPlugin`. Its special behavior has its own tests.
   */
  readonly like?: string
  /** False if ADD needs more than a stage has, such as a server. Only shared cases without ADD then run. */
  readonly staged?: false
  /** The directories of its devices. */
  readonly devices?: readonly string[]
  /** Creates objects that a host needs before the first ADD, such as the parent link of the containers' interfaces. */
  readonly setUp?: (host: HostNamespace) => Promise<unknown>
  /** Returns its configuration with as much work as possible, except IPv6. */
  readonly keys: (place: Place) => Record<string, unknown>
}

export interface OtherPlugin extends AnyPlugin {
  readonly role: "delegating" | "device" | "loopback" | "ipam" | "chained"
}

/** The data that the shared cases need of an interface plugin and its network. */
export interface InterfacePlugin extends AnyPlugin {
  readonly role: "interface"
  /**
   * Whether the container's interface has another end on the host, which the result lists. Without one, DEL without the
   * namespace leaves the interface to the kernel, which deletes it with its namespace.
   */
  readonly hasHostEnd: boolean
  /** Whether it supports `ipMasq`, and enables the host's forwarding. */
  readonly masquerades: boolean
  /** Returns the network with only IPv4 addresses. `keys` replace or add top-level keys. */
  readonly network: (keys?: object) => NetworkKeys
  /** Keys with which ADD changes everything that it can change on a host. */
  readonly everything: object
  /** Keys for addresses of both families, with a default route for each. */
  readonly dualStack: object
  /** Keys for a default route of IPv4, and its form in the result. */
  readonly defaultRoute: { readonly keys: object; readonly answered: { dst: string; gw?: string } }
  /** Keys of another network that can have containers at the same time. */
  readonly neighbour: object
  /** Keys of a network that shares nothing with this one, not even a bridge. */
  readonly stranger: object
  readonly subnet: string
  readonly gateway: string
  /** The IPv4 and IPv6 addresses of the first two containers. */
  readonly pairs: readonly [AddressPair, AddressPair]
}

/** A configuration as it is written. */
export type NetworkKeys = Record<string, unknown> & { ipam: Record<string, unknown> }

/** Addresses of two containers in one network. */
export interface AddressPair {
  readonly first: string
  readonly second: string
  readonly prefix: number
}

export type Plugin = InterfacePlugin | OtherPlugin
