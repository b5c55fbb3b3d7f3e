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

/** The assignment type of a MAC that was set explicitly, <linux/netdevice.h>, as /sys prints it. */
const NET_ADDR_SET = "3"

/**
 * Creates the configured bridge if it does not exist. Brings it up with a fixed MAC, promiscuous if configured, and
 * with `accept_ra` 0, so that containers cannot add routes to the host by router advertisements. A failed ADD leaves
 * the bridge, because another container may be about to join it. Throws `CniError` if a link of another kind has the
 * name, or if the configuration has VLANs and the bridge has no `vlan_filtering`. `seen` is the bridge that the caller
 * found. If that bridge was removed since, changing it fails with `ENODEV`.
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
 * Returns the link with the bridge's name. If that link is a device that the kernel returned from a container under
 * this name, first restores the device's own name.
 */
export function claimBridgeName(host: RouteSocket, name: string): Link | undefined {
  const found = findLink(host, name)
  if (!found || found.kind === "bridge") return found
  restoreAllReturned(host)
  return findLink(host, name)
}

/** Throws `CniError` if a link cannot be the configured bridge. */
export function requireBridge(link: Link, config: Pick<BridgeConfig, "vlans">): void {
  if (link.kind !== "bridge") {
    throw new CniError(Code.InvalidNetworkConfig, `"${link.name}" already exists but is not a bridge`, {
      details: link.kind === "" ? "it is a device" : `it is of kind "${link.kind}"`,
    })
  }
  if (needsFiltering(config.vlans)) requireVlanFiltering(link)
}

/**
 * Creates the bridge. If another ADD has just created it, that is not an error. Sets no MAC, because a bridge that is
 * created with a MAC has no carrier, and no link-local address, until a port has a carrier.
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
  tryWriteSysctl(`net/ipv6/conf/${bridge}/accept_dad`, "0") // the address is random, and duplicate address detection would delay traffic by a second
}

/**
 * Reports whether the bridge's MAC was set explicitly, even to the same value. If it was not, it follows the lowest MAC
 * of the ports, and containers lose their gateway when a port is added or removed. If it was, setting it again would
 * drop all neighbors on the bridge. Returns false if /sys is unreadable or is of another namespace.
 */
function isMacFixed({ name, mac }: Link): boolean {
  return readLinkAttribute(name, "address") === mac && readLinkAttribute(name, "addr_assign_type") === NET_ADDR_SET
}

/** Returns the content of a link's file in /sys; "" if it does not exist or is being removed (EINVAL, ENODEV). */
function readLinkAttribute(name: string, file: string): string {
  const bytes = unlessErrno(() => findFile(`/sys/class/net/${name}/${file}`), "EINVAL", "ENODEV")
  return decodeUtf8(bytes ?? new Uint8Array()).trim()
}

/** Returns a random locally administered unicast MAC. */
export function randomMac(): string {
  const bytes = randomBytes(6)
  bytes[0] = ((bytes[0] ?? 0) & 0xfc) | 0x02
  return formatMac(bytes)
}

/**
 * Adds a gateway address to the bridge. A failed ADD leaves the address there. If the bridge has an address of an
 * overlapping network, replaces that address with `force`, and throws `CniError` without.
 */
export function ensureGateway(host: RouteSocket, bridge: Link, gateway: Cidr, force: boolean): void {
  const { isThere, conflicting } = requireRoomFor(host, bridge, gateway, force)
  if (isThere) return
  for (const address of conflicting) deleteAddress(host, bridge, address)
  if (familyOf(gateway.ip) === AF_INET6) enableIpv6(bridge.name)
  addOnce(host, bridge, gateway)
}

/** Looks for a gateway address on the bridge. Throws `CniError` if other addresses conflict, unless `force` is set. */
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

/** Enables IPv6 on a link, because the host may disable it by default. Does nothing if the kernel lacks IPv6. */
function enableIpv6(name: string): void {
  const setting = `net/ipv6/conf/${name}/disable_ipv6`
  if (findSysctl(setting) === "1") tryWriteSysctl(setting, "0")
}

/** Adds an address to the bridge. If another ADD has just added it, that is not an error. */
function addOnce(host: RouteSocket, bridge: Link, gateway: Cidr): void {
  try {
    addAddress(host, bridge, { ...gateway, noDad: true })
  } catch (error) {
    if (isErrno(error, "EEXIST")) return
    throw new CniError(Code.Internal, `Cannot add ${formatCidr(gateway)} to bridge "${bridge.name}"`, { cause: error })
  }
}
