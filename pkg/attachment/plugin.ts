import type { InterfaceConfig } from "../config/mod.ts"
import type { Link, RouteSocket, RouteSpec } from "../netlink/mod.ts"
import type { NamespaceFile, Netns } from "../netns/mod.ts"
import type { PacketFilter } from "../nftables/mod.ts"
import type { BackendName, OwnedRules } from "../rules/mod.ts"
import type { Call, Plugin, Restorable, Restoring } from "../skel/mod.ts"
import type { Cidr, Interface, Owner, Result } from "../types/mod.ts"
import type { Undo } from "../undo/mod.ts"
import type { Recorded } from "./check.ts"
import type { InterfaceKind } from "./kinds.ts"

/** What the scaffold has to know of a plugin's configuration. */
export interface AttachmentConfig extends Omit<InterfaceConfig, "mac"> {
  /** ADD writes rules into the packet filter. */
  hasRules?: boolean
  /** What the container sends beyond its networks leaves with the host's address. */
  ipMasq?: boolean
  /** Networks that an address in them reaches without masquerade, instead of its own network only. */
  ipMasqBeyond?: readonly string[]
  /** Undefined: the one that the kernel can do. */
  ipMasqBackend?: BackendName | undefined
  /** The interface stays down. */
  disableContainerInterface?: boolean
}

/** Both sides of an attachment while a verb works on it. */
export interface Sides {
  call: Call
  /** Whose everything is that the attachment leaves in the kernel. */
  owner: Owner
  /** A socket in the host's namespace. */
  host: RouteSocket
  /** The container's namespace, and a socket inside it. */
  sandbox: Netns
  inside: RouteSocket
  /** Undefined where no rules are asked for, or the kernel has no nf_tables. */
  filter: PacketFilter | undefined
}

/** An attachment during its ADD. */
export interface Attaching extends Sides {
  /** Every change of the host is followed by its reverse; what lies in the container goes with the interface. */
  undo: Undo
}

/**
 * Returns the result that the interface is to have: addresses, routes, DNS. Call it once the interface exists and frames
 * can pass: only then can DHCP lease an address. Other addresses are leased before `attach`. Throws the IPAM plugin's
 * error.
 */
export type Lease = () => Result

/** An attachment that is compared with what ADD answered. */
export interface Checking extends Sides {
  recorded: Recorded
  /** The container's interface: there, of the recorded MAC and MTU, and up. */
  link: Link
}

/** An attachment with what ADD has answered for its interface. */
export interface RestorableInterface<C> extends Restorable<C> {
  readonly recorded: Recorded
}

/** What restoring works with. */
export interface RestoringInterfaces<C> extends Omit<Restoring<C>, "attachments"> {
  readonly attachments: readonly RestorableInterface<C>[]
  /** A socket in the host's namespace. */
  readonly host: RouteSocket
  /** Undefined where no rules are asked for, or the kernel has no nf_tables. */
  readonly filter: PacketFilter | undefined
}

/** The routes inside a container, in the order in which the kernel takes them. */
export interface ContainerRoutes {
  readonly first: readonly RouteSpec[]
  /** Networks whose routes, made by the kernel along with the addresses, have to go. */
  readonly networks: readonly Cidr[]
  readonly last: readonly RouteSpec[]
}

/**
 * A plugin that gives containers an interface: what is particular to it. The scaffold does the rest: sockets, leases, the
 * masquerade, undo, and the verbs that find an interface by its owner.
 */
export interface InterfacePlugin<C extends AttachmentConfig, Prepared = void> {
  readonly name: string
  /** Of the container's interface. Undefined for a device that is not made here, and that `detach` gives back. */
  readonly kind: InterfaceKind | undefined
  /** An attachment without an IPAM plugin has the addresses and routes of the earlier plugin's result, if there is one. */
  readonly takesAddresses?: boolean
  readonly fields?: Plugin<C>["fields"]
  config: Plugin<C>["config"]
  /**
   * The IPAM plugin's answer as this plugin gives it to the runtime. Called before anything is made, and by STATUS. Without
   * it all addresses belong to the first interface. Throws `CniError` for addresses that the plugin cannot use.
   */
  complete?(leased: Result, config: C): Result
  /**
   * Takes over what an earlier plugin of the chain has made, and returns the result; undefined where there is nothing to
   * take over. Throws `CniError`.
   */
  chained?(attaching: Attaching, config: C): Result | undefined
  /**
   * Checks whether the ADD can succeed, before an address is leased; returns what `attach` needs of it. Throws `CniError`,
   * and then the ADD takes no address.
   */
  prepare?(attaching: Attaching, config: C): Prepared
  /**
   * Creates the interface, with the addresses and routes of the result; returns the result's interfaces. Called once the
   * addresses are leased, except those of DHCP. Throws `CniError`.
   */
  attach(attaching: Attaching, lease: Lease, config: C, prepared: Prepared): Interface[]
  /** Compares what the scaffold does not know of. Throws a `CniError` that names the first difference. */
  check?(checking: Checking, config: C): void
  /** Compares the routes, where they are not just those of the result. Throws `CniError`. */
  checkRoutes?(checking: Checking): void
  /** The routes of the container, where they are not just those of the result. */
  routesInside?(recorded: Recorded, link: Link): ContainerRoutes
  /** Throws the `CniError` that each ADD would throw, for any container. For STATUS. */
  requireUsable?(sides: Pick<Sides, "host" | "filter">, config: C): void
  /** Likewise, for an ADD that gets the addresses of this result. */
  requireRoomFor?(host: RouteSocket, result: Result, config: C): void
  /** What ADD may have left in the packet filter. */
  rules?(filter: PacketFilter | undefined): readonly Pick<OwnedRules<never, NamespaceFile>, "remove" | "gc">[]
  /** Makes again what the host has lost, but for the masquerade, which is the scaffold's. */
  restore?(restoring: RestoringInterfaces<C>): void
  /** Takes back for DEL what neither goes with the interface nor is one of the `rules`. Throws `CniError`. */
  detach?(call: Call, config: C, owner: Owner): void
  /**
   * For GC: does the work of `detach` for all objects of the network that belong to none of these owners. Throws
   * `CniError`.
   */
  detachOrphans?(call: Call, valid: readonly Owner[]): void
  /** Whether the container gets a device without an interface, which its own driver runs from user space. */
  isUserspace?(config: C): boolean
}
