import type { InterfaceConfig } from "../config/mod.ts"
import { addressesOf, checkAddresses, checkRoutes, type ResultAddress, requireMtu } from "../ip/mod.ts"
import { expectedIps, ipam } from "../ipam/mod.ts"
import { Masquerade, type MasqueradeBackend } from "../masquerade/mod.ts"
import { assignNsid, findLink, type Link, RouteSocket } from "../netlink/mod.ts"
import { type NamespaceFile, Netns } from "../netns/mod.ts"
import { PacketFilter } from "../nftables/mod.ts"
import { type Answered, type Call, definePlugin, type Plugin, requireForAdd, requireOneForAdd } from "../skel/mod.ts"
import {
  type Attachment,
  CniError,
  Code,
  type Interface,
  type Owner,
  ownerOf,
  ownersOf,
  type Result,
} from "../types/mod.ts"
import { Failures, Undo } from "../undo/mod.ts"
import { checkInterface, checkUp, expectInterface, type Recorded, readRecorded } from "./check.ts"
import { deleteInterface, deleteOrphans, type InterfaceKind, interfaceKinds, requireKind } from "./find.ts"

/** What the scaffold has to know of a plugin's configuration. */
export interface AttachmentConfig extends Omit<InterfaceConfig, "mac"> {
  /** ADD writes rules into the packet filter. */
  hasRules?: boolean
  /** What the container sends beyond its networks leaves with the host's address. */
  ipMasq?: boolean
  /** Undefined: the one that the kernel can do. */
  ipMasqBackend?: MasqueradeBackend | undefined
  /** The interface stays down. */
  keepDown?: boolean
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

/** An attachment on the way to being made. */
export interface Attaching extends Sides {
  /** Every change of the host is followed by its reverse; what lies in the container goes with the interface. */
  undo: Undo
}

/** An attachment that is compared with what ADD answered. */
export interface Checking extends Sides {
  recorded: Recorded
  /** The container's interface: there, of the recorded MAC and MTU, and up. */
  link: Link
}

/** Rules in the packet filter that are found again by their owner alone. */
export interface OwnedRules {
  /** Removes those of an attachment. Throws `CniError`. */
  remove(owner: Owner, namespace: NamespaceFile): void
  /** Removes those of a network's other attachments than the valid ones. Throws `CniError`. */
  gc(network: string, valid: readonly Owner[]): void
}

/**
 * A plugin that gives containers an interface: what is particular to it. The scaffold does the rest: sockets, leases, the
 * masquerade, undo, and the verbs that find an interface by its owner.
 */
export interface InterfacePlugin<C extends AttachmentConfig> {
  readonly name: string
  /** Of the container's interface. Undefined for a device that is not made here, and that `detach` gives back. */
  readonly kind: InterfaceKind | undefined
  /** An attachment without an IPAM plugin has the addresses and routes of the earlier plugin's result, if there is one. */
  readonly takesAddresses?: boolean
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
  /** Makes the interface, with the addresses and routes of the result; returns the result's interfaces. Throws `CniError`. */
  attach(attaching: Attaching, result: Result, config: C): Interface[]
  /** Compares what the scaffold does not know of. Throws a `CniError` that names the first difference. */
  check?(checking: Checking, config: C): void
  /** Compares the routes, where they are not just those of the result. Throws `CniError`. */
  checkRoutes?(checking: Checking): void
  /** Throws the `CniError` that each ADD would throw, for any container. For STATUS. */
  requireUsable?(sides: Pick<Sides, "host" | "filter">, config: C): void
  /** Likewise, for an ADD that gets the addresses of this result. */
  requireRoomFor?(host: RouteSocket, result: Result, config: C): void
  /** What it may have left in the packet filter, by the names that errors use. */
  rules?(filter: PacketFilter | undefined): Readonly<Record<string, OwnedRules>>
  /** Takes back for DEL what neither goes with the interface nor is one of the `rules`. Throws `CniError`. */
  detach?(call: Call, config: C, owner: Owner): void
  /** Takes back for GC what belongs to none of these owners, of what `detach` takes back. Throws `CniError`. */
  detachOrphans?(call: Call, valid: readonly Owner[]): void
  /** Whether the container gets a device without an interface, which its own driver runs from user space. */
  isUserspace?(config: C): boolean
}

/**
 * An interface plugin as the skeleton runs it.
 *
 * @example
 * export const macvlan = defineInterfacePlugin<MacvlanConfig>({ name: "macvlan", kind: "macvlan", … })
 * if (import.meta.main) runPlugin(macvlan)
 */
export function defineInterfacePlugin<C extends AttachmentConfig>(plugin: InterfacePlugin<C>): Plugin<C> {
  return definePlugin<C>({
    name: plugin.name,
    config: plugin.config,
    add: (call, config) => addAttachment(plugin, call, config),
    check: (call, config) => checkAttachment(plugin, call, config),
    del: (call, config) => deleteAttachment(plugin, call, config),
    gc: (call, _config, valid) => collectGarbage(plugin, call, valid),
    status: (call, config) => requireServable(plugin, call, config),
  })
}

function masquerades({ ipMasq, ipam }: AttachmentConfig): boolean {
  return ipMasq === true && ipam !== undefined
}

const NO_ADDRESSES: Result = { interfaces: [], ips: [], routes: [], dns: {} }

function completeResult<C extends AttachmentConfig>(plugin: InterfacePlugin<C>, leased: Result, config: C): Result {
  if (plugin.complete) return plugin.complete(leased, config)
  return { ...leased, ips: leased.ips.map((ip) => ({ ...ip, interface: 0 })), dns: config.dns ?? leased.dns }
}

function addAttachment<C extends AttachmentConfig>(plugin: InterfacePlugin<C>, call: Call, config: C): Answered {
  using host = RouteSocket.open()
  using sandbox = Netns.open(call.namespace)
  using inside = sandbox.run(() => RouteSocket.open())
  using filter = config.hasRules ? PacketFilter.find() : undefined
  using undo = new Undo(call.log)
  const owner = ownerOf(call)
  const attaching = { call, owner, host, sandbox, inside, filter, undo }
  const joined = plugin.chained?.(attaching, config)
  if (joined) return call.answer(joined, undo)
  if (!plugin.isUserspace?.(config)) refuseExistingInterface(inside, call)
  const result = completeResult(plugin, config.ipam ? lease(call, undo) : givenAddresses(plugin, call), config)
  requireMtu(config.mtu, result)
  if (masquerades(config)) addMasquerade(attaching, addressesOf(result), config.ipMasqBackend)
  if (plugin.kind && interfaceKinds[plugin.kind].owner === "container") assignNsid(host, sandbox.fd) // for GC
  const interfaces = plugin.attach(attaching, result, config)
  return call.answer({ ...result, interfaces }, undo)
}

/**
 * Throws `CniError` when the container has an interface of that name. Before anything is leased or made: an ADD that is
 * repeated must not touch what the first one made.
 */
function refuseExistingInterface(inside: RouteSocket, call: Call): void {
  if (!findLink(inside, call.ifName)) return
  throw new CniError(Code.Internal, `Cannot create interface "${call.ifName}" in "${call.netns}": it already exists`, {
    details: "DEL the attachment that made it first, or choose another CNI_IFNAME",
  })
}

/** Those of the earlier plugin of the chain, where the plugin takes them. */
function givenAddresses({ takesAddresses }: { takesAddresses?: boolean }, { network: { prevResult } }: Call): Result {
  return takesAddresses && prevResult && prevResult.ips.length > 0 ? prevResult : NO_ADDRESSES
}

function lease(call: Call, undo: Undo): Result {
  const leased = ipam.add(call)
  undo.defer("lease addresses", () => ipam.del(call))
  return leased
}

function addMasquerade(
  { call, owner, filter, undo }: Attaching,
  addresses: readonly ResultAddress[],
  backend: MasqueradeBackend | undefined,
): void {
  const masquerade = new Masquerade(filter)
  masquerade.add(owner, addresses, backend)
  undo.defer("masquerade", () => masquerade.remove(owner, call.namespace))
}

function checkAttachment<C extends AttachmentConfig>(plugin: InterfacePlugin<C>, call: Call, config: C): void {
  const recorded = readRecorded(call)
  ipam.check(call)
  if (plugin.isUserspace?.(config)) return
  using host = RouteSocket.open()
  using sandbox = Netns.open(call.namespace)
  using inside = sandbox.run(() => RouteSocket.open())
  using filter = config.hasRules ? PacketFilter.find() : undefined
  const owner = ownerOf(call)
  const link = expectInterface(inside, call, plugin.chained ? undefined : plugin.kind)
  checkInterface(link, recorded.interface)
  if (!config.keepDown) checkUp(link, "interface")
  const checking = { call, owner, host, sandbox, inside, filter, recorded, link }
  plugin.check?.(checking, config)
  checkAddresses(inside, link, recorded.addresses)
  if (plugin.checkRoutes) plugin.checkRoutes(checking)
  else checkRoutes(inside, link, recorded.prevResult)
  if (masquerades(config)) new Masquerade(filter).check(owner, recorded.addresses, config.ipMasqBackend)
}

function deleteAttachment<C extends AttachmentConfig>(plugin: InterfacePlugin<C>, call: Call, config: C): void {
  const owner = ownerOf(call)
  const failures = new Failures()
  using filter = plugin.rules && failures.attempt("open netfilter", PacketFilter.find)
  // Rules first: the kernel frees them while it waits for the link, and not after.
  for (const [what, rules] of Object.entries(plugin.rules?.(filter) ?? {})) {
    failures.attempt(`remove the ${what}`, () => rules.remove(owner, call.namespace))
  }
  const { kind } = plugin
  if (kind) failures.attempt(`delete interface "${call.ifName}"`, () => deleteInterface(call, owner, kind))
  if (plugin.detach) failures.attempt(`detach "${call.ifName}"`, () => plugin.detach?.(call, config, owner))
  failures.attempt("release the addresses", () => ipam.del(call))
  failures.throwIfAny()
}

function collectGarbage<C extends AttachmentConfig>(
  plugin: InterfacePlugin<C>,
  call: Call,
  attachments: readonly Attachment[],
): void {
  const { name: network } = call.network
  const valid = ownersOf(network, attachments)
  const failures = new Failures()
  using filter = plugin.rules && failures.attempt("open netfilter", PacketFilter.find)
  for (const [what, rules] of Object.entries(plugin.rules?.(filter) ?? {})) {
    failures.attempt(`remove the stale ${what}`, () => rules.gc(network, valid))
  }
  const { kind } = plugin
  if (kind) failures.attempt("delete orphaned interfaces", () => deleteOrphans(network, valid, kind))
  failures.attempt("detach what is left of other attachments", () => plugin.detachOrphans?.(call, valid))
  failures.attempt("release stale addresses", () => ipam.gc(call))
  failures.throwIfAny()
}

/** Throws code 50 with the reason when ADD must fail for every container, and the IPAM plugin's error. */
function requireServable<C extends AttachmentConfig>(plugin: InterfacePlugin<C>, call: Call, config: C): void {
  using filter = config.hasRules ? PacketFilter.find() : undefined
  if (masquerades(config)) new Masquerade(filter).requireUsable(config.ipMasqBackend)
  using host = RouteSocket.open()
  requireForAdd(() => plugin.requireUsable?.({ host, filter }, config))
  for (const set of config.ipam ? expectedIps(call.raw) : []) {
    requireOneForAdd(set, (ip) => {
      const result = completeResult(plugin, { ...NO_ADDRESSES, ips: [ip] }, config)
      requireMtu(config.mtu, result)
      plugin.requireRoomFor?.(host, result, config)
    })
  }
  const { kind } = plugin
  if (kind) requireForAdd(() => requireKind(host, kind))
  ipam.status(call)
}
