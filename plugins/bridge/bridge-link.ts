import { restoreAllReturned } from "../../pkg/devices/mod.ts"
import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { refuseRouterAdvertisements } from "../../pkg/ip/mod.ts"
import { findFile, isErrno, randomBytes, unlessErrno } from "../../pkg/libc/mod.ts"
import {
  type Address,
  addAddress,
  addLink,
  deleteAddress,
  findLink,
  getLink,
  IFF_PROMISC,
  IFF_UP,
  type Link,
  listAddresses,
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
import type { BridgeConfig } from "./config.ts"
import { noVlanFiltering, requireVlanFiltering } from "./vlan-filtering.ts"
import { needsFiltering } from "./vlans.ts"

/** <linux/netdevice.h>, as /sys prints it */
const NET_ADDR_SET = "3"

/**
 * Creates the configured bridge if it does not exist. Brings it up with a fixed MAC, promiscuous if configured, and
 * with `accept_ra` 0, so that containers cannot add routes to the host by router advertisements. A failed ADD leaves
 * the bridge, because another container may be about to join it. Throws `CniError` if the name belongs to another kind
 * of link, or to a bridge without `vlan_filtering` while the configuration has VLANs. `seen` is the bridge that the
 * caller found. If it was removed since, changing it fails with `ENODEV`.
 */
export function ensureBridge(host: RouteSocket, config: BridgeConfig, seen?: Link): Link {
  const existing = seen ?? claimBridgeName(host, config.bridge)
  if (!existing) createBridge(host, config)
  const bridge = existing ?? getLink(host, config.bridge)
  requireBridge(bridge, config)
  refuseRouterAdvertisements(bridge.name)
  const isUp = (bridge.flags & IFF_UP) !== 0
  const promiscuous = config.promiscMode && (bridge.flags & IFF_PROMISC) === 0
  const isFixed = existing !== undefined && isMacFixed(bridge)
  if (promiscuous || !isUp || !isFixed) {
    setLink(host, bridge, {
      up: true,
      ...(promiscuous ? { promiscuous } : {}),
      ...(isFixed ? {} : { mac: bridge.mac }),
      // A link that has carrier from the start otherwise reports "unknown".
      ...(existing ? {} : { operState: OperState.Up }),
    })
  }
  return bridge
}

/**
 * Returns the link with the bridge's name. First restores the name of a device that a container gave this name and that
 * the kernel moved to the host.
 */
export function claimBridgeName(host: RouteSocket, name: string): Link | undefined {
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
 * Creates the bridge, unless another container's ADD was faster. Sets no MAC, because a bridge that is created with one
 * has no carrier, and so no link-local address until a port has a carrier.
 */
function createBridge(host: RouteSocket, { bridge, mtu, vlans }: BridgeConfig): void {
  const filtering = needsFiltering(vlans)
  try {
    addLink(host, { kind: "bridge", name: bridge, mtu, data: filtering ? { vlanFiltering: 1 } : {} })
  } catch (error) {
    if (isErrno(error, "EEXIST")) return
    if (filtering && isErrno(error, "EOPNOTSUPP")) throw noVlanFiltering(bridge, error)
    throw new CniError(Code.Internal, `Cannot create bridge "${bridge}"`, { cause: error })
  }
  tryWriteSysctl(`net/ipv6/conf/${bridge}/accept_dad`, "0") // its address is random, and duplicate detection would delay traffic for a second
}

/**
 * Whether the bridge's MAC was set explicitly, even to the same value. Otherwise it follows the lowest MAC of the
 * ports, and containers lose their gateway when a port is added or removed. False if /sys is unreadable or belongs to
 * another namespace. If it were set again, the kernel would drop all neighbors on the bridge.
 */
function isMacFixed({ name, mac }: Link): boolean {
  return readLinkAttribute(name, "address") === mac && readLinkAttribute(name, "addr_assign_type") === NET_ADDR_SET
}

/**
 * Returns the content of a link's file in /sys, or "" if it does not exist or is being removed (EINVAL, then ENODEV).
 */
function readLinkAttribute(name: string, file: string): string {
  const bytes = unlessErrno(() => findFile(`/sys/class/net/${name}/${file}`), "EINVAL", "ENODEV")
  return decodeUtf8(bytes ?? new Uint8Array()).trim()
}

/** Returns a locally administered unicast address. */
export function randomMac(): string {
  const bytes = randomBytes(6)
  bytes[0] = ((bytes[0] ?? 0) & 0xfc) | 0x02
  return formatMac(bytes)
}

/**
 * Adds a gateway address to the bridge. A failed ADD leaves it with the bridge. An address of an overlapping network
 * conflicts: `force` replaces it, otherwise it is an error. Throws `CniError`.
 */
export function ensureGateway(host: RouteSocket, bridge: Link, gateway: Cidr, force: boolean): void {
  const { isThere, conflicting } = requireRoomFor(host, bridge, gateway, force)
  if (isThere) return
  for (const address of conflicting) deleteAddress(host, bridge, address)
  if (familyOf(gateway.ip) === AF_INET6) enableIpv6(bridge.name)
  addOnce(host, bridge, gateway)
}

/**
 * Finds out whether the bridge already has a gateway address, and which of its addresses conflict. Throws `CniError` if
 * some conflict and must not be replaced.
 */
export function requireRoomFor(
  host: RouteSocket,
  bridge: Link,
  gateway: Cidr,
  force: boolean,
): { isThere: boolean; conflicting: Address[] } {
  const wanted = formatCidr(gateway)
  const conflicting: Address[] = []
  for (const address of listAddresses(host, bridge)) {
    if (familyOf(address.ip) !== familyOf(gateway.ip) || isLinkLocal(address.ip)) continue
    if (formatCidr(address) === wanted) return { isThere: true, conflicting: [] }
    if (contains(address, gateway.ip) || contains(gateway, address.ip)) conflicting.push(address)
  }
  const [first] = conflicting
  if (!first || force) return { isThere: false, conflicting }
  throw new CniError(Code.Internal, `"${bridge.name}" already has an IP address different from ${wanted}`, {
    details: `it has ${formatCidr(first)}; set "forceAddress" to replace it`,
  })
}

/**
 * Enables IPv6, which may be disabled for new links, or for all links. On a kernel without IPv6, adding the address
 * throws the error.
 */
function enableIpv6(name: string): void {
  const setting = `net/ipv6/conf/${name}/disable_ipv6`
  if (findSysctl(setting) === "1") tryWriteSysctl(setting, "0")
}

/** Adds an address, unless another container's ADD was faster. */
function addOnce(host: RouteSocket, bridge: Link, gateway: Cidr): void {
  try {
    addAddress(host, bridge, { ...gateway, noDad: true })
  } catch (error) {
    if (isErrno(error, "EEXIST")) return
    throw new CniError(Code.Internal, `Cannot add ${formatCidr(gateway)} to bridge "${bridge.name}"`, { cause: error })
  }
}
