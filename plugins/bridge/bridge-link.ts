import { contains } from "../../pkg/ip/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import {
  addAddress,
  addBridge,
  deleteAddress,
  deleteLink,
  findLink,
  getLink,
  IFF_UP,
  type Link,
  listAddresses,
  listLinks,
  type RouteSocket,
  setLink,
} from "../../pkg/netlink/mod.ts"
import { tryWriteSysctl } from "../../pkg/sysctl/mod.ts"
import { type Cidr, CniError, Code, formatCidr, formatMac } from "../../pkg/types/mod.ts"
import type { Undo } from "../../pkg/undo/mod.ts"
import type { BridgeConfig } from "./config.ts"

/**
 * The bridge of the configuration, made when there is none, up, and promiscuous when that is asked for. Its hardware
 * address is fixed from the start, so that neither a port nor udev changes it. Throws `CniError` when the name belongs
 * to something else.
 */
export function ensureBridge(host: RouteSocket, config: BridgeConfig, undo: Undo): Link {
  const existing = findLink(host, config.bridge)
  if (!existing) {
    undo.step(
      `create bridge "${config.bridge}"`,
      () => createBridge(host, config),
      (created) => created && deleteIfUnused(host, config.bridge),
    )
  }
  const bridge = existing ?? getLink(host, config.bridge)
  if (bridge.kind !== "bridge") {
    throw new CniError(Code.InvalidNetworkConfig, `"${config.bridge}" already exists but is not a bridge`, {
      details: bridge.kind === "" ? "it is a device" : `it is of kind "${bridge.kind}"`,
    })
  }
  const promiscuous = config.promiscMode && (bridge.attributes.promiscuity ?? 0) === 0
  if (promiscuous || (bridge.flags & IFF_UP) === 0) {
    setLink(host, bridge, { up: true, ...(promiscuous ? { promiscuous } : {}) })
  }
  return bridge
}

/** True when it was this call that made it: another container's may have been faster. */
function createBridge(host: RouteSocket, { bridge, mtu }: BridgeConfig): boolean {
  try {
    addBridge(host, { name: bridge, mac: randomMac(), ...(mtu === undefined ? {} : { mtu }) })
  } catch (error) {
    if (isErrno(error, "EEXIST")) return false
    throw new CniError(Code.Internal, `Cannot create bridge "${bridge}"`, { cause: error })
  }
  tryWriteSysctl(`net/ipv6/conf/${bridge}/accept_ra`, "0") // containers must not configure the host
  tryWriteSysctl(`net/ipv6/conf/${bridge}/accept_dad`, "0") // its address is random, and traffic would wait a second
  return true
}

/** A locally administered unicast address. */
function randomMac(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(6))
  bytes[0] = ((bytes[0] ?? 0) & 0xfc) | 0x02
  return formatMac(bytes)
}

function deleteIfUnused(host: RouteSocket, name: string): void {
  const bridge = findLink(host, name)
  if (!bridge || listLinks(host).some(({ attributes }) => attributes.master === bridge.index)) return
  deleteLink(host, bridge)
}

/**
 * Gives the bridge a gateway address. An address of an overlapping network is in the way: with `force` it is replaced,
 * else that is an error. Throws `CniError`.
 */
export function ensureGateway(host: RouteSocket, bridge: Link, gateway: Cidr, force: boolean, undo: Undo): void {
  const present = listAddresses(host, bridge).filter(({ ip }) => ip.length === gateway.ip.length && !isLinkLocal(ip))
  const wanted = formatCidr(gateway)
  if (present.some((address) => formatCidr(address) === wanted)) return
  for (const address of present) {
    if (!contains(address, gateway.ip) && !contains(gateway, address.ip)) continue
    if (!force) {
      throw new CniError(Code.Internal, `"${bridge.name}" already has an IP address different from ${wanted}`, {
        details: `it has ${formatCidr(address)}; set "forceAddress" to replace it`,
      })
    }
    undo.step(
      `replace ${formatCidr(address)} on "${bridge.name}"`,
      () => deleteAddress(host, bridge, address),
      () => addAddress(host, bridge, { ...address, noDad: true }),
    )
  }
  undo.step(
    `add ${wanted} to "${bridge.name}"`,
    () => addOnce(host, bridge, gateway),
    (added) => added && deleteAddress(host, bridge, gateway),
  )
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

/** fe80::/10: the kernel gives one to every link. */
function isLinkLocal(ip: Uint8Array): boolean {
  return ip.length === 16 && ip[0] === 0xfe && ((ip[1] ?? 0) & 0xc0) === 0x80
}
