import { addressesOf, checkAddresses, checkRoutes, requireMtu, setAcceptRa } from "../ip/mod.ts"
import { expectedIps, ipam } from "../ipam/mod.ts"
import { Masquerade } from "../masquerade/mod.ts"
import { assignNsid, findLink, RouteSocket } from "../netlink/mod.ts"
import { Netns } from "../netns/mod.ts"
import { PacketFilter } from "../nftables/mod.ts"
import { endDeletion } from "../records/mod.ts"
import {
  type Answered,
  type Call,
  defineRestorable,
  type RestorablePlugin,
  requireForAdd,
  requireOneForAdd,
} from "../skel/mod.ts"
import { type Attachment, CniError, Code, type Interface, ownerOf, ownersOf, type Result } from "../types/mod.ts"
import { Failures, Undo } from "../undo/mod.ts"
import { checkInterface, checkUp, expectInterface, readRecorded } from "./check.ts"
import { deleteInterface, deleteOrphans } from "./delete.ts"
import { interfaceKinds, requireKind } from "./kinds.ts"
import type { Attaching, AttachmentConfig, InterfacePlugin } from "./plugin.ts"
import { masqueradedOf, restoreAttachments } from "./restore.ts"
import { restoreInterface } from "./restore-inside.ts"

/**
 * Returns an interface plugin in the form that `runPlugin` runs.
 *
 * @example
 * export const macvlan = defineInterfacePlugin<MacvlanConfig>({ name: "macvlan", kind: "macvlan", … })
 * if (import.meta.main) runPlugin(macvlan)
 */
export function defineInterfacePlugin<C extends AttachmentConfig, Prepared = void>(
  plugin: InterfacePlugin<C, Prepared>,
): RestorablePlugin<C> {
  return defineRestorable<C>({
    name: plugin.name,
    fields: plugin.fields,
    config: plugin.config,
    add: (call, config) => addAttachment(plugin, call, config),
    check: (call, config) => checkAttachment(plugin, call, config),
    del: (call, config) => deleteAttachment(plugin, call, config),
    gc: (call, _config, valid) => collectGarbage(plugin, call, valid),
    status: (call, config) => requireServable(plugin, call, config),
    restoreInside: (call, config, isDry) => restoreInterface(plugin, call, config, isDry),
    ...(keepsOnHost(plugin) && {
      restore: (restoring) => restoreAttachments(plugin, masquerades, restoring),
    }),
  })
}

/** Reports whether the plugin's attachments have objects on the host that can be lost while the interface exists. */
function keepsOnHost<C extends AttachmentConfig>({ restore, fields }: InterfacePlugin<C, unknown>): boolean {
  return restore !== undefined || "ipMasq" in (fields ?? {})
}

function masquerades({ ipMasq, ipam }: AttachmentConfig): boolean {
  return ipMasq === true && ipam !== undefined
}

const NO_ADDRESSES: Result = { interfaces: [], ips: [], routes: [], dns: {} }

function completeResult<C extends AttachmentConfig>(
  plugin: InterfacePlugin<C, unknown>,
  leased: Result,
  config: C,
): Result {
  if (plugin.complete) return plugin.complete(leased, config)
  return { ...leased, ips: leased.ips.map((ip) => ({ ...ip, interface: 0 })), dns: config.dns ?? leased.dns }
}

function addAttachment<C extends AttachmentConfig, Prepared>(
  plugin: InterfacePlugin<C, Prepared>,
  call: Call,
  config: C,
): Answered {
  using host = RouteSocket.open()
  using sandbox = Netns.open(call.namespace)
  using inside = sandbox.openRoute()
  using filter = config.hasRules ? PacketFilter.find() : undefined
  using undo = new Undo(call.log)
  const owner = ownerOf(call)
  const usesInterface = ipam.usesInterface(config.ipam)
  const attaching: Attaching = { call, owner, host, sandbox, inside, filter, undo }
  let leased: Result | undefined
  const leaseOnce = () => {
    leased ??= leaseAll(plugin, attaching, config)
    return leased
  }
  const joined = plugin.chained?.(attaching, config)
  if (joined) return call.answer(joined, undo)
  if (!plugin.isUserspace?.(config)) refuseExistingInterface(inside, call)
  const isFoundInside = plugin.kind !== undefined && interfaceKinds[plugin.kind].owner === "container"
  if (isFoundInside) assignNsid(host, sandbox.fd) // for GC; the nsid is deleted with the namespace
  const prepared = plugin.prepare?.(attaching, config) as Prepared // undefined, that is, `void`, without the function
  if (!usesInterface) leaseOnce()
  const interfaces = plugin.attach(attaching, leaseOnce, config, prepared)
  const result = leaseOnce()
  return call.answer(
    { ...result, interfaces: usesInterface ? interfaces.map(withCurrentMtu(inside, call)) : interfaces },
    undo,
  )
}

/** Leases the addresses of an attachment, and adds their masquerade. */
function leaseAll<C extends AttachmentConfig>(
  plugin: InterfacePlugin<C, unknown>,
  attaching: Attaching,
  config: C,
): Result {
  const { call, owner, sandbox, filter, undo } = attaching
  // dhcp brings the interface up before its addresses are known.
  if (ipam.usesInterface(config.ipam)) sandbox.run(() => setAcceptRa(call.ifName, config.acceptRa))
  const result = completeResult(plugin, config.ipam ? lease(call, undo) : givenAddresses(plugin, call), config)
  requireMtu(config.mtu, result)
  const addresses = addressesOf(result)
  if (masquerades(config) && addresses.length > 0) {
    const spec = { owner, addresses: masqueradedOf(config, addresses) }
    new Masquerade(filter).add(spec, config.ipMasqBackend, undo, call.log)
  }
  return result
}

/**
 * Returns a function that writes the current MTU into the container's interface of a result, because a DHCP server may
 * have changed the MTU.
 */
function withCurrentMtu(inside: RouteSocket, { ifName }: Call): (one: Interface) => Interface {
  const mtu = findLink(inside, ifName)?.mtu
  return (one) => (one.sandbox && one.name === ifName && one.mtu && mtu ? { ...one, mtu } : one)
}

/** Throws `CniError` if the interface exists, before any change: it and its objects belong to an earlier ADD. */
export function refuseExistingInterface(inside: RouteSocket, call: Call): void {
  if (!findLink(inside, call.ifName)) return
  throw new CniError(Code.Internal, `Cannot create interface "${call.ifName}" in "${call.netns}": it already exists`, {
    details: "run DEL for its attachment first, or choose another CNI_IFNAME",
  })
}

/** Returns the addresses of the earlier plugin of the chain, if the plugin uses them. */
function givenAddresses({ takesAddresses }: { takesAddresses?: boolean }, { network: { prevResult } }: Call): Result {
  return takesAddresses && prevResult && prevResult.ips.length > 0 ? prevResult : NO_ADDRESSES
}

function lease(call: Call, undo: Undo): Result {
  const leased = ipam.add(call)
  undo.defer("lease addresses", () => ipam.del(call))
  return leased
}

function checkAttachment<C extends AttachmentConfig>(plugin: InterfacePlugin<C, unknown>, call: Call, config: C): void {
  const recorded = readRecorded(call)
  ipam.check(call)
  if (plugin.isUserspace?.(config)) return
  using host = RouteSocket.open()
  using sandbox = Netns.open(call.namespace)
  using inside = sandbox.openRoute()
  using filter = config.hasRules ? PacketFilter.find() : undefined
  const owner = ownerOf(call)
  const link = expectInterface(inside, call, plugin.chained ? undefined : plugin.kind)
  checkInterface(link, recorded.interface)
  if (!config.disableContainerInterface) checkUp(link, "interface")
  const checking = { call, owner, host, sandbox, inside, filter, recorded, link }
  plugin.check?.(checking, config)
  checkAddresses(inside, link, recorded.addresses)
  if (plugin.checkRoutes) plugin.checkRoutes(checking)
  else checkRoutes(inside, link, recorded.prevResult)
  if (!masquerades(config)) return
  new Masquerade(filter).check({ owner, addresses: masqueradedOf(config, recorded.addresses) }, config.ipMasqBackend)
}

function deleteAttachment<C extends AttachmentConfig>(
  plugin: InterfacePlugin<C, unknown>,
  call: Call,
  config: C,
): void {
  const owner = ownerOf(call)
  const failures = new Failures(call.log)
  const usesInterface = ipam.usesInterface(call.network.ipam?.type)
  if (usesInterface) failures.attempt("release the addresses", () => ipam.del(call))
  using filter = plugin.rules && failures.attempt("open netfilter", PacketFilter.find)
  // Rules are removed first, because the kernel frees them while it waits for the deletion of the link.
  for (const rules of plugin.rules?.(filter) ?? []) rules.remove(owner, call.namespace, failures)
  const { kind } = plugin
  if (kind) failures.attempt(`delete interface "${call.ifName}"`, () => deleteInterface(call, owner, kind))
  if (plugin.detach) failures.attempt(`detach "${call.ifName}"`, () => plugin.detach?.(call, config, owner))
  if (!usesInterface) failures.attempt("release the addresses", () => ipam.del(call))
  filter?.socket.leave()
  failures.throwIfAny()
  endDeletion(owner)
}

function collectGarbage<C extends AttachmentConfig>(
  plugin: InterfacePlugin<C, unknown>,
  call: Call,
  attachments: readonly Attachment[],
): void {
  const { name: network } = call.network
  const valid = ownersOf(network, attachments)
  const failures = new Failures(call.log)
  const usesInterface = ipam.usesInterface(call.network.ipam?.type)
  if (usesInterface) failures.attempt("release stale addresses", () => ipam.gc(call))
  using filter = plugin.rules && failures.attempt("open netfilter", PacketFilter.find)
  for (const rules of plugin.rules?.(filter) ?? []) rules.gc(network, valid, failures)
  const { kind } = plugin
  if (kind) failures.attempt("delete orphaned interfaces", () => deleteOrphans({ network, valid, log: call.log }, kind))
  failures.attempt("detach leftovers of other attachments", () => plugin.detachOrphans?.(call, valid))
  if (!usesInterface) failures.attempt("release stale addresses", () => ipam.gc(call))
  failures.throwIfAny()
}

/** Throws code 50 with the reason if every ADD would fail, or the IPAM plugin's error. */
function requireServable<C extends AttachmentConfig>(plugin: InterfacePlugin<C, unknown>, call: Call, config: C): void {
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
