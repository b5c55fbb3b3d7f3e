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

/** The part of a plugin's configuration that the common code needs. */
export interface AttachmentConfig extends Omit<InterfaceConfig, "mac"> {
  /** Whether ADD adds rules to the packet filter. */
  hasRules?: boolean
  /** Whether packets that leave the container's networks get the host's address as source. */
  ipMasq?: boolean
  /** Networks that the container reaches without masquerade, instead of only its own network. */
  ipMasqBeyond?: readonly string[]
  /** The packet filter for the masquerade. If undefined, nf_tables is used, or iptables if nf_tables fails. */
  ipMasqBackend?: BackendName | undefined
  /** Whether the interface stays down. */
  disableContainerInterface?: boolean
}

/** The host and the container of an attachment during a verb. */
export interface Sides {
  call: Call
  /** The owner recorded on every kernel object of the attachment. */
  owner: Owner
  host: RouteSocket
  sandbox: Netns
  inside: RouteSocket
  /** Undefined if no rules are configured, or if the kernel has no nf_tables. */
  filter: PacketFilter | undefined
}

/** An attachment during its ADD. */
export interface Attaching extends Sides {
  /**
   * The reverses of the ADD's changes on the host. Changes inside the container need none: they vanish with the
   * interface.
   */
  undo: Undo
}

/**
 * Returns the result for the interface: addresses, routes, DNS. Call it once the interface exists and passes frames,
 * because DHCP can lease an address only then. Other IPAM plugins lease the addresses before `attach`. Throws the IPAM
 * plugin's error.
 */
export type Lease = () => Result

/** An attachment during its CHECK. */
export interface Checking extends Sides {
  recorded: Recorded
  /** The container's interface, which is up and has the recorded MAC and MTU. */
  link: Link
}

/** An attachment to restore, with ADD's result for its interface. */
export interface RestorableInterface<C> extends Restorable<C> {
  readonly recorded: Recorded
}

/** The attachments to restore, and the host's sockets. */
export interface RestoringInterfaces<C> extends Omit<Restoring<C>, "attachments"> {
  readonly attachments: readonly RestorableInterface<C>[]
  readonly host: RouteSocket
  /** Undefined if no rules are configured, or if the kernel has no nf_tables. */
  readonly filter: PacketFilter | undefined
}

/**
 * The routes inside a container. Those of `first` must be added before those of `last`, or the kernel refuses the
 * latter.
 */
export interface ContainerRoutes {
  readonly first: readonly RouteSpec[]
  /** Networks of the container's addresses. The kernel's own routes to them are deleted before `last` is added. */
  readonly networks: readonly Cidr[]
  readonly last: readonly RouteSpec[]
}

/**
 * The part of an interface plugin that differs from other plugins. The common code does the rest: sockets, leases, the
 * masquerade, undo, and the verbs that find an interface by its owner.
 */
export interface InterfacePlugin<C extends AttachmentConfig, Prepared = void> {
  readonly name: string
  /** The kind of the container's interface; undefined for an existing device that is moved, and `detach` returns. */
  readonly kind: InterfaceKind | undefined
  /** Whether an attachment without an IPAM plugin gets the addresses and routes of the earlier plugin's result. */
  readonly takesAddresses?: boolean
  readonly fields?: Plugin<C>["fields"]
  config: Plugin<C>["config"]
  /**
   * Completes the IPAM plugin's result for the runtime. ADD calls it before it creates anything, and STATUS calls it
   * too. Without this function, all addresses belong to the first interface. Throws `CniError` for addresses that the
   * plugin cannot use.
   */
  complete?(leased: Result, config: C): Result
  /**
   * Takes over the earlier plugin's interface and returns ADD's result. Returns undefined if there is no such
   * interface. Throws `CniError`.
   */
  chained?(attaching: Attaching, config: C): Result | undefined
  /** Checks, before addresses are leased, that the ADD can succeed. Returns data for `attach`. Throws `CniError`. */
  prepare?(attaching: Attaching, config: C): Prepared
  /**
   * Creates the interface, with the addresses and routes of the lease. Returns the interfaces for ADD's result. Called
   * after the addresses are leased, except for DHCP. Throws `CniError`.
   */
  attach(attaching: Attaching, lease: Lease, config: C, prepared: Prepared): Interface[]
  /** Checks the plugin's own part of the attachment. Throws `CniError` with the first difference. */
  check?(checking: Checking, config: C): void
  /** Checks the container's routes, if they differ from those of the result by design. Throws `CniError`. */
  checkRoutes?(checking: Checking): void
  /** Returns the container's routes, if they differ from those of the result by design. */
  routesInside?(recorded: Recorded, link: Link): ContainerRoutes
  /** For STATUS: throws the `CniError` that ADD would throw for any container. */
  requireUsable?(sides: Pick<Sides, "host" | "filter">, config: C): void
  /** For STATUS: throws the `CniError` that an ADD with the addresses of this result would throw. */
  requireRoomFor?(host: RouteSocket, result: Result, config: C): void
  /** Returns the features that may have added rules to the packet filter during ADD. */
  rules?(filter: PacketFilter | undefined): readonly Pick<OwnedRules<never, NamespaceFile>, "remove" | "gc">[]
  /** Restores the plugin's lost objects on the host, except the masquerade, which the common code restores. */
  restore?(restoring: RestoringInterfaces<C>): void
  /** For DEL: removes objects that remain after the interface and the `rules` are removed. Throws `CniError`. */
  detach?(call: Call, config: C, owner: Owner): void
  /** For GC: does the work of `detach` for all attachments of the network except `valid`. Throws `CniError`. */
  detachOrphans?(call: Call, valid: readonly Owner[]): void
  /** Reports whether the container gets a device for a user-space driver, without a network interface. */
  isUserspace?(config: C): boolean
}
