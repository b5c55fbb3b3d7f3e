import type { Feature } from "./features.ts"
import type { HostNamespace } from "./host-namespace.ts"

/**
 * The work that a plugin does for an attachment: creates an interface, delegates to another plugin, moves a device,
 * brings up `lo`, assigns addresses, or runs after other plugins in a chain.
 */
export type Role = Plugin["role"]

/** The name of a network in the shared cases: "lab" uses 10.22.0.0/24, "other" 10.23.0.0/24. */
export type Network = "lab" | "other"

/** The values that tell the attachments of one test apart. */
export interface Place {
  readonly network: Network
  /** A number, unique to the attachment, for values that must differ: a host port, a device, a VLAN ID. */
  readonly port: number
}

/** The facts about a plugin that the shared cases need. */
interface AnyPlugin {
  /** The kernel features that the plugin requires. The plugin's cases are skipped if a feature is missing. */
  readonly needs?: readonly [Feature, ...Feature[]]
  /**
   * A similar plugin with the same code structure, which needs fewer kernel features. Shared cases run only for the
   * similar plugin, except those with `forEachKind`, which also run for this plugin.
   */
  readonly like?: string
  /**
   * False if ADD needs something that a `Stage` does not have, such as a server. Shared cases with ADD are then
   * skipped.
   */
  readonly staged?: false
  /** The directories that contain the device files of the plugin. */
  readonly devices?: readonly string[]
  /** Creates the objects that must exist on a host before the first ADD, such as the parent link of the interfaces. */
  readonly setUp?: (host: HostNamespace) => Promise<unknown>
  /** Returns a configuration that enables all functions of the plugin except IPv6. */
  readonly keys: (place: Place) => Record<string, unknown>
}

export interface OtherPlugin extends AnyPlugin {
  readonly role: "delegating" | "device" | "loopback" | "ipam" | "chained"
}

/** The facts about an interface plugin and its network that the shared cases need. */
export interface InterfacePlugin extends AnyPlugin {
  readonly role: "interface"
  /**
   * Whether the container's interface has a peer on the host, which the result lists. Without a peer, DEL cannot reach
   * the interface if its namespace is unknown; the kernel deletes the interface with the namespace.
   */
  readonly hasHostEnd: boolean
  /** Whether the plugin supports `ipMasq` and enables forwarding on the host. */
  readonly masquerades: boolean
  /** Returns a network with only IPv4 addresses. `keys` replace or add top-level keys. */
  readonly network: (keys?: object) => NetworkKeys
  /** Configuration keys with which ADD makes every change on the host that it can make. */
  readonly everything: object
  /** Configuration keys for IPv4 and IPv6 addresses, with a default route for each family. */
  readonly dualStack: object
  /** Configuration keys for an IPv4 default route, and that route in the result. */
  readonly defaultRoute: { readonly keys: object; readonly answered: { dst: string; gw?: string } }
  /** Configuration keys of a second network that can have containers at the same time. */
  readonly neighbour: object
  /** Configuration keys of a network that shares nothing with this network, not even a bridge. */
  readonly stranger: object
  readonly subnet: string
  readonly gateway: string
  /** The IPv4 and IPv6 addresses of the first two containers. */
  readonly pairs: readonly [AddressPair, AddressPair]
}

/** A network configuration as a user writes it. */
export type NetworkKeys = Record<string, unknown> & { ipam: Record<string, unknown> }

/** Addresses of two containers in one network. */
export interface AddressPair {
  readonly first: string
  readonly second: string
  readonly prefix: number
}

export type Plugin = InterfacePlugin | OtherPlugin
