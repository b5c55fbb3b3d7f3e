import { restoreAllReturned } from "../../pkg/devices/mod.ts"
import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { refuseRouterAdvertisements, restoreAcceptRa } from "../../pkg/ip/mod.ts"
import {
  FileDescriptor,
  findFile,
  isErrno,
  lockWithin,
  Open,
  randomBytes,
  tryLock,
  tryLockShared,
  unlessErrno,
} from "../../pkg/libc/mod.ts"
import {
  type Address,
  addAddress,
  addLink,
  deleteAddress,
  deleteLink,
  findLink,
  getLink,
  IFF_PROMISC,
  IFF_UP,
  type Link,
  listAddresses,
  listLinks,
  OperState,
  type RouteSocket,
  setLink,
} from "../../pkg/netlink/mod.ts"
import { findSysctl, tryWriteSysctl } from "../../pkg/sysctl/mod.ts"
import {
  AF_INET6,
  type Cidr,
  CniError,
  Code,
  contains,
  familyOf,
  formatCidr,
  formatMac,
  isLinkLocal,
} from "../../pkg/types/mod.ts"
import type { Undo } from "../../pkg/undo/mod.ts"
import type { BridgeConfig } from "./config.ts"
import { noVlanFiltering, requireVlanFiltering } from "./vlan-filtering.ts"
import { needsFiltering } from "./vlans.ts"

/** <linux/netdevice.h>, as /sys prints it */
const NET_ADDR_SET = "3"

/**
 * Creates the configured bridge if it does not exist. Brings it up with a fixed MAC, promiscuous if configured, and
 * with `accept_ra` 0, so that containers cannot add routes to the host by router advertisements. Throws `CniError` when
 * the name belongs to another kind of link, or to a bridge without `vlan_filtering` while the configuration has VLANs.
 * `seen` is the bridge where the caller has seen it: when it was removed since, changing it fails with `ENODEV`.
 */
export function ensureBridge(host: RouteSocket, config: BridgeConfig, undo: Undo, seen?: Link): Link {
  const existing = seen ?? findPresent(host, config.bridge)
  if (!existing) {
    const takeBack = () => whileUnused(host, config.bridge, (bridge) => deleteLink(host, bridge))
    if (createBridge(host, config)) undo.defer(`create bridge "${config.bridge}"`, takeBack)
  }
  const bridge = existing ?? getLink(host, config.bridge)
  requireBridge(bridge, config)
  const accepted = refuseRouterAdvertisements(bridge.name)
  const heedAgain = () => whileUnused(host, bridge.name, () => restoreAcceptRa(bridge.name, accepted))
  if (accepted !== undefined) undo.defer(`ignore routers on "${bridge.name}"`, heedAgain)
  const isUp = (bridge.flags & IFF_UP) !== 0
  const promiscuous = config.promiscMode && (bridge.flags & IFF_PROMISC) === 0
  const isFixed = existing !== undefined && isMacFixed(bridge)
  if (promiscuous || !isUp || !isFixed) {
    const before = { up: isUp, ...(promiscuous ? { promiscuous: false } : {}) }
    // A link that has carrier from the start otherwise reports "unknown", which some programs do not take for up.
    const operState = existing ? {} : { operState: OperState.Up }
    const change = {
      up: true,
      ...(promiscuous ? { promiscuous } : {}),
      ...(isFixed ? {} : { mac: bridge.mac }),
      ...operState,
    }
    setLink(host, bridge, change)
    const setBack = () => whileUnused(host, bridge.name, (found) => setLink(host, found, before))
    undo.defer(`bring up bridge "${bridge.name}"`, setBack)
  }
  return bridge
}

/** Finds the link of the bridge's name. A device to which a container gave this name, and which the kernel has put on the host, gets back its own. */
export function findPresent(host: RouteSocket, name: string): Link | undefined {
  const found = findLink(host, name)
  if (!found || found.kind === "bridge") return found
  restoreAllReturned(host)
  return findLink(host, name)
}

/** Throws `CniError` for a link that cannot be the bridge of the configuration. */
export function requireBridge(link: Link, config: Pick<BridgeConfig, "vlans">): void {
  if (link.kind !== "bridge") {
    throw new CniError(Code.InvalidNetworkConfig, `"${link.name}" already exists but is not a bridge`, {
      details: link.kind === "" ? "it is a device" : `it is of kind "${link.kind}"`,
    })
  }
  if (needsFiltering(config.vlans)) requireVlanFiltering(link)
}

/**
 * True when it was this call that made it: another container's may have been faster. Without an address: a bridge that is
 * given one by the request that makes it has no carrier, and so no link-local address before a port has one.
 */
function createBridge(host: RouteSocket, { bridge, mtu, vlans }: BridgeConfig): boolean {
  const filtering = needsFiltering(vlans)
  try {
    addLink(host, { kind: "bridge", name: bridge, mtu, data: filtering ? { vlanFiltering: 1 } : {} })
  } catch (error) {
    if (isErrno(error, "EEXIST")) return false
    if (filtering && isErrno(error, "EOPNOTSUPP")) throw noVlanFiltering(bridge, error)
    throw new CniError(Code.Internal, `Cannot create bridge "${bridge}"`, { cause: error })
  }
  tryWriteSysctl(`net/ipv6/conf/${bridge}/accept_dad`, "0") // its address is random, and traffic would wait a second
  return true
}

/**
 * Whether a bridge has the address that was set, also when it is the one it had: any other follows the lowest of its ports', and
 * containers lose their gateway when a port comes or goes. False where /sys does not tell, or is another namespace's.
 * Setting it once more would have the kernel forget all neighbours on the bridge.
 */
function isMacFixed({ name, mac }: Link): boolean {
  return readLinkAttribute(name, "address") === mac && readLinkAttribute(name, "addr_assign_type") === NET_ADDR_SET
}

/** The content of a link's file in /sys; "" for one that is not there, or that another call is just removing (EINVAL, then ENODEV). */
function readLinkAttribute(name: string, file: string): string {
  const bytes = unlessErrno(() => findFile(`/sys/class/net/${name}/${file}`), "EINVAL", "ENODEV")
  return decodeUtf8(bytes ?? new Uint8Array()).trim()
}

/** Another ADD that fails takes some 20 ms to take a bridge back. */
const TAKING_BACK_MS = 1000

/** A locally administered unicast address. */
export function randomMac(): string {
  const bytes = randomBytes(6)
  bytes[0] = ((bytes[0] ?? 0) & 0xfc) | 0x02
  return formatMac(bytes)
}

/**
 * Keeps a bridge from being taken back by an ADD that fails, until it is disposed: by a shared lock on its settings, which
 * are there for as long as it is. Undefined where /proc/sys is not.
 */
export function holdBridge({ name }: Link): Disposable | undefined {
  const file = openSettings(name)
  // Every user of the host may lock what can be read: a lock that is held for longer is not an ADD's, and stops no ADD.
  if (file) lockWithin(TAKING_BACK_MS, () => tryLockShared(file.fd))
  return file
}

/** Does something with a bridge that no port is on, and that no ADD is about to join. */
function whileUnused(host: RouteSocket, name: string, act: (bridge: Link) => void): void {
  using file = openSettings(name)
  if (file && !tryLock(file.fd)) return
  const bridge = findLink(host, name)
  if (!bridge || listLinks(host).some(({ attributes }) => attributes.master === bridge.index)) return
  act(bridge)
}

function openSettings(name: string): FileDescriptor | undefined {
  const path = `/proc/sys/net/ipv4/conf/${name}`
  return unlessErrno(() => FileDescriptor.open(path, Open.ReadOnly), "ENOENT", "EACCES", "EPERM")
}

/**
 * Gives the bridge a gateway address. An address of an overlapping network is in the way: with `force` it is replaced,
 * else that is an error. Throws `CniError`.
 */
export function ensureGateway(host: RouteSocket, bridge: Link, gateway: Cidr, force: boolean, undo: Undo): void {
  const { isThere, inTheWay } = requireRoomFor(host, bridge, gateway, force)
  if (isThere) return
  for (const address of inTheWay) {
    deleteAddress(host, bridge, address)
    const putBack = () => addAddress(host, bridge, { ...address, noDad: true })
    undo.defer(`replace ${formatCidr(address)} on "${bridge.name}"`, putBack)
  }
  if (familyOf(gateway.ip) === AF_INET6) enableIpv6(bridge.name, undo)
  if (!addOnce(host, bridge, gateway)) return
  undo.defer(`add ${formatCidr(gateway)} to "${bridge.name}"`, () => deleteAddress(host, bridge, gateway))
}

/**
 * Looks whether the bridge has a gateway address already, and which of its addresses are in the way. Throws `CniError` when
 * some are, and must not be replaced.
 */
export function requireRoomFor(
  host: RouteSocket,
  bridge: Link,
  gateway: Cidr,
  force: boolean,
): { isThere: boolean; inTheWay: Address[] } {
  const wanted = formatCidr(gateway)
  const inTheWay: Address[] = []
  for (const address of listAddresses(host, bridge)) {
    if (familyOf(address.ip) !== familyOf(gateway.ip) || isLinkLocal(address.ip)) continue
    if (formatCidr(address) === wanted) return { isThere: true, inTheWay: [] }
    if (contains(address, gateway.ip) || contains(gateway, address.ip)) inTheWay.push(address)
  }
  const [first] = inTheWay
  if (!first || force) return { isThere: false, inTheWay }
  throw new CniError(Code.Internal, `"${bridge.name}" already has an IP address different from ${wanted}`, {
    details: `it has ${formatCidr(first)}; set "forceAddress" to replace it`,
  })
}

/**
 * IPv6 may be disabled for new links, or for all links. On a kernel without IPv6 the error comes from adding the
 * address.
 */
function enableIpv6(name: string, undo: Undo): void {
  const setting = `net/ipv6/conf/${name}/disable_ipv6`
  if (findSysctl(setting) !== "1") return
  tryWriteSysctl(setting, "0")
  undo.defer(`enable IPv6 on "${name}"`, () => tryWriteSysctl(setting, "1"))
}

function addOnce(host: RouteSocket, bridge: Link, gateway: Cidr): boolean {
  try {
    addAddress(host, bridge, { ...gateway, noDad: true })
    return true
  } catch (error) {
    if (isErrno(error, "EEXIST")) return false
    throw new CniError(Code.Internal, `Cannot add ${formatCidr(gateway)} to bridge "${bridge.name}"`, { cause: error })
  }
}
