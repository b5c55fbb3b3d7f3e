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

/** The part of a plugin's configuration that the scaffold needs. */
export interface AttachmentConfig extends Omit<InterfaceConfig, "mac"> {
  /** ADD writes rules to the packet filter. */
  hasRules?: boolean
  /** Packets that leave the container's networks get the host's address. */
  ipMasq?: boolean
  /** Networks that their addresses reach without masquerade, instead of only their own network. */
  ipMasqBeyond?: readonly string[]
  /** Undefined for the one that the kernel supports. */
  ipMasqBackend?: BackendName | undefined
  /** The interface stays down. */
  disableContainerInterface?: boolean
}

/** Both sides of an attachment during a verb. */
export interface Sides {
  call: Call
  /** The owner recorded on every kernel object of the attachment. */
  owner: Owner
  /** A socket in the host's namespace. */
  host: RouteSocket
  /** The container's namespace, and a socket inside it. */
  sandbox: Netns
  inside: RouteSocket
  /** Undefined if no rules are configured, or the kernel has no nf_tables. */
  filter: PacketFilter | undefined
}

/** An attachment during its ADD. */
export interface Attaching extends Sides {
  /**
   * Every change of the host is followed by its reverse; changes inside the container are deleted with the interface.
   */
  undo: Undo
}

/**
 * Returns the result for the interface: addresses, routes, DNS. Call it once the interface exists and passes frames:
 * only then can DHCP lease an address. Other addresses are leased before `attach`. Throws the IPAM plugin's error.
 */
export type Lease = () => Result

/** An attachment that is compared with ADD's result. */
export interface Checking extends Sides {
  recorded: Recorded
  /** The container's interface: it exists, is up, and has the recorded MAC and MTU. */
  link: Link
}

/** An attachment with ADD's result for its interface. */
export interface RestorableInterface<C> extends Restorable<C> {
  readonly recorded: Recorded
}

/** The context of restoring. */
export interface RestoringInterfaces<C> extends Omit<Restoring<C>, "attachments"> {
  readonly attachments: readonly RestorableInterface<C>[]
  /** A socket in the host's namespace. */
  readonly host: RouteSocket
  /** Undefined if no rules are configured, or the kernel has no nf_tables. */
  readonly filter: PacketFilter | undefined
}

/** The routes inside a container, in the order that the kernel accepts. */
export interface ContainerRoutes {
  readonly first: readonly RouteSpec[]
  /** Networks whose routes, added by the kernel with the addresses, are deleted. */
  readonly networks: readonly Cidr[]
  readonly last: readonly RouteSpec[]
}

/**
 * A plugin that gives containers an interface: its own part. The scaffold does the rest: sockets, leases, the
 * masquerade, undo, and the verbs that find an interface by its owner.
 */
export interface InterfacePlugin<C extends AttachmentConfig, Prepared = void> {
  readonly name: string
  /**
   * The kind of the container's interface. Undefined for a device that is not created here and that `detach` returns.
   */
  readonly kind: InterfaceKind | undefined
  /**
   * An attachment without an IPAM plugin has the addresses and routes of the earlier plugin's result, if there is one.
   */
  readonly takesAddresses?: boolean
  readonly fields?: Plugin<C>["fields"]
  config: Plugin<C>["config"]
  /**
   * Completes the IPAM plugin's result for the runtime. Called before anything is created, and by STATUS. Without it
   * all addresses belong to the first interface. Throws `CniError` for addresses that the plugin cannot use.
   */
  complete?(leased: Result, config: C): Result
  /**
   * Takes over the interface of an earlier plugin of the chain, and returns the result; undefined if there is none.
   * Throws `CniError`.
   */
  chained?(attaching: Attaching, config: C): Result | undefined
  /**
   * Checks whether the ADD can succeed, before an address is leased; returns what `attach` needs of it. Throws
   * `CniError`, and then the ADD takes no address.
   */
  prepare?(attaching: Attaching, config: C): Prepared
  /**
   * Creates the interface, with the addresses and routes of the result; returns the result's interfaces. Called once
   * the addresses are leased, except those of DHCP. Throws `CniError`.
   */
  attach(attaching: Attaching, lease: Lease, config: C, prepared: Prepared): Interface[]
  /** Compares the parts that the scaffold does not compare. Throws `CniError` with the first difference. */
  check?(checking: Checking, config: C): void
  /** Compares the routes, if they are not exactly those of the result. Throws `CniError`. */
  checkRoutes?(checking: Checking): void
  /** Returns the container's routes, if they are not exactly those of the result. */
  routesInside?(recorded: Recorded, link: Link): ContainerRoutes
  /** Throws the `CniError` that every ADD would throw, for any container. For STATUS. */
  requireUsable?(sides: Pick<Sides, "host" | "filter">, config: C): void
  /** Like `requireUsable`, for an ADD with the addresses of this result. */
  requireRoomFor?(host: RouteSocket, result: Result, config: C): void
  /** Returns the rules that ADD may have left in the packet filter. */
  rules?(filter: PacketFilter | undefined): readonly Pick<OwnedRules<never, NamespaceFile>, "remove" | "gc">[]
  /** Restores lost objects of the host except the masquerade, which the scaffold restores. */
  restore?(restoring: RestoringInterfaces<C>): void
  /** For DEL: removes objects that are neither deleted with the interface nor one of the `rules`. Throws `CniError`. */
  detach?(call: Call, config: C, owner: Owner): void
  /**
   * For GC: does the work of `detach` for all objects of the network except those of these owners. Throws `CniError`.
   */
  detachOrphans?(call: Call, valid: readonly Owner[]): void
  /** Whether the container gets a device without an interface, for a user-space driver. */
  isUserspace?(config: C): boolean
}
