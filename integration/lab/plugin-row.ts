import type { Feature } from "./features.ts"
import type { HostNamespace } from "./host-namespace.ts"

/**
 * What a plugin does for an attachment: makes an interface, or has another plugin do so, moves a device there, brings up `lo`,
 * gives addresses, or comes after others.
 */
export type Role = Plugin["role"]

/** A network of a stage: "lab" has 10.22.0.0/24, "other" 10.23.0.0/24. */
export type Network = "lab" | "other"

/** Where one attachment is. */
export interface Place {
  readonly network: Network
  /** Of the host; no two attachments of a stage have the same. */
  readonly port: number
}

/** What the shared cases know of every plugin. */
interface AnyPlugin {
  /** The features without which it cannot do its work: where one is missing, its cases are left out. */
  readonly needs?: readonly [Feature, ...Feature[]]
  /**
   * The plugin that shows most of the shared cases for this one, too: on the same scaffold, and on more kernels. This one has those
   * that tell what becomes of its kind of link, see `testPlugin`; what is particular to it has tests of its own.
   */
  readonly like?: string
  /** False where ADD needs more than a stage has, such as a server: of the shared cases it has those that need no ADD. */
  readonly staged?: false
  /** Directories of devices that it works with. */
  readonly devices?: readonly string[]
  /** What a host has to have before the first ADD, such as the link that the containers' interfaces sit on. */
  readonly setUp?: (host: HostNamespace) => Promise<unknown>
  /** Its configuration, with as much to do as there is, but for IPv6. */
  readonly keys: (place: Place) => Record<string, unknown>
}

export interface OtherPlugin extends AnyPlugin {
  readonly role: "delegating" | "device" | "loopback" | "ipam" | "chained"
}

/** What the shared cases know of a plugin that makes the container's interface, and of a network of it. */
export interface InterfacePlugin extends AnyPlugin {
  readonly role: "interface"
  /**
   * Whether the container's interface has another end on the host, which is in the result. Without one, DEL that is not told the
   * namespace leaves the interface to the kernel, which deletes it with its namespace.
   */
  readonly hasHostEnd: boolean
  /** Whether it knows `ipMasq`, and makes the host forward. */
  readonly masquerades: boolean
  /** The network, with IPv4 addresses alone; `keys` replace or add keys at the top. */
  readonly network: (keys?: object) => NetworkKeys
  /** Keys by which ADD changes all that it may change of a host. */
  readonly everything: object
  /** Keys for addresses of both families, with a default route for each. */
  readonly dualStack: object
  /** Keys for a default route of IPv4, and what the result says of it. */
  readonly defaultRoute: { readonly keys: object; readonly answered: { dst: string; gw?: string } }
  /** Keys of another network that may have containers at the same time. */
  readonly neighbour: object
  /** Keys of a network that has nothing in common with this one, not even a bridge. */
  readonly stranger: object
  readonly subnet: string
  readonly gateway: string
  /** What the first two containers get, of IPv4 and of IPv6. */
  readonly pairs: readonly [AddressPair, AddressPair]
}

/** A configuration, as it is written. */
export type NetworkKeys = Record<string, unknown> & { ipam: Record<string, unknown> }

/** Addresses of two containers in one network. */
export interface AddressPair {
  readonly first: string
  readonly second: string
  readonly prefix: number
}

export type Plugin = InterfacePlugin | OtherPlugin
