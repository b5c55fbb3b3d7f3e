import { randomVethName, refuseRouterAdvertisements, VETH_QUEUES } from "../../pkg/ip/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import {
  addVeth,
  describeVlans,
  findLink,
  getLink,
  IFF_UP,
  type Ifindex,
  type Link,
  linkData,
  listPortVlans,
  type NetlinkSocket,
  setLink,
  type VlanRange,
} from "../../pkg/netlink/mod.ts"
import { tryWriteSysctl } from "../../pkg/sysctl/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import { randomMac } from "./bridge-link.ts"
import { defaultVlanOf, setPortVlans } from "./vlan-filtering.ts"
import type { VlanConfig } from "./vlans.ts"

export interface VlanGateway {
  /** "BRIDGE.VLAN" */
  name: string
  bridge: Link
  vlans: VlanConfig
}

/**
 * Returns the host's interface in a VLAN of the bridge, up: the end of a veth pair that gets the gateway addresses. The
 * other end is a port of the bridge in that VLAN. Creates the pair if it does not exist; a failed ADD leaves it. Throws
 * `CniError` if a link with the name is not in that VLAN.
 */
export function ensureVlanGateway(host: NetlinkSocket, gateway: VlanGateway): Link {
  const { name } = gateway
  if (!findLink(host, name)) createPair(host, gateway)
  const link = getLink(host, name)
  let problem = findProblem(host, gateway, link)
  if (problem !== undefined) {
    joinVlan(host, gateway, link)
    problem = findProblem(host, gateway, link) // another ADD may have added it to the VLAN in the meantime
  }
  if (problem !== undefined) throw notInVlan(gateway, problem)
  for (const end of [peerOnHost(host, link), link]) {
    if (!end) continue
    refuseRouterAdvertisements(end.name)
    if ((end.flags & IFF_UP) === 0) setLink(host, end, { up: true })
  }
  return link
}

/**
 * Throws `CniError`, like `ensureVlanGateway`, if a link with the name is not in the VLAN. For STATUS; changes nothing.
 */
export function requireVlanGateway(host: NetlinkSocket, gateway: VlanGateway): void {
  const link = findLink(host, gateway.name)
  if (!link || portToJoin(host, gateway, link)) return
  const problem = findProblem(host, gateway, link)
  if (problem !== undefined) throw notInVlan(gateway, problem)
}

function notInVlan({ name, bridge, vlans }: VlanGateway, problem: string): CniError {
  return new CniError(Code.InvalidNetworkConfig, `"${name}" already exists but is not in VLAN ${vlans.native}`, {
    details: `expected a veth pair that ends on bridge "${bridge.name}" in that VLAN, found ${problem}`,
  })
}

/** Creates the pair. If another ADD has just created it, that is not an error. */
function createPair(host: NetlinkSocket, { name, bridge }: VlanGateway): void {
  const { mtu, index } = bridge
  try {
    const port = { name: randomVethName(), mac: randomMac(), mtu, queues: VETH_QUEUES, master: index }
    addVeth(host, port, { name, mac: randomMac(), mtu, queues: VETH_QUEUES })
  } catch (error) {
    if (isErrno(error, "EEXIST")) return
    throw new CniError(Code.Internal, `Cannot create "${name}"`, { cause: error })
  }
}

/**
 * Moves the pair's port into the VLAN if the port is still in the bridge's default VLAN, because it is new, or was left
 * by a killed ADD. If the port's bridge was deleted, the port first joins the new bridge. Any other port stays
 * unchanged.
 */
function joinVlan(host: NetlinkSocket, gateway: VlanGateway, link: Link): void {
  const port = portToJoin(host, gateway, link)
  if (!port) return
  if (port.attributes.master === undefined) setLink(host, port, { master: gateway.bridge.index })
  tryWriteSysctl(`net/ipv6/conf/${gateway.name}/accept_dad`, "0") // the address is random, and duplicate address detection would delay traffic by a second
  setPortVlans(host, gateway.bridge, port, { ...gateway.vlans, trunk: undefined })
}

/** Matches names of `randomVethName`. If a pair's port has any other name, another program created the pair. */
const ownName = /^veth[0-9a-f]{8}$/

/** Returns the pair's port if it is in the bridge's default VLAN, or if it is ours and on no bridge. */
function portToJoin(host: NetlinkSocket, { bridge }: VlanGateway, link: Link): Link | undefined {
  const port = peerOnHost(host, link)
  if (port !== undefined && port.attributes.master === undefined) return ownName.test(port.name) ? port : undefined
  if (port?.attributes.master !== bridge.index) return undefined
  return isNew(bridge, listPortVlans(host, port).get(port.index) ?? []) ? port : undefined
}

/** Reports whether a port is only in the bridge's default VLAN. */
function isNew(bridge: Link, vlans: readonly VlanRange[]): boolean {
  const [only, ...others] = vlans
  return others.length === 0 && (!only || (only.first === only.last && only.first === defaultVlanOf(bridge)))
}

/** Returns the reason why a link cannot be the VLAN gateway; undefined if it can. */
export function findProblem(host: NetlinkSocket, { bridge, vlans }: VlanGateway, link: Link): string | undefined {
  const { native } = vlans
  if (link.kind === "vlan") {
    // An administrator may have created a VLAN interface on the bridge instead, which is equivalent.
    const id = linkData(link, "vlan")?.id
    if (id === native && link.attributes.link === bridge.index) return undefined
    return `VLAN ${id} of link number ${link.attributes.link}`
  }
  const port = peerOnHost(host, link)
  if (!port) return link.kind === "" ? "a device" : `kind "${link.kind}"${link.kind === "veth" ? " of elsewhere" : ""}`
  if (port.attributes.master !== bridge.index) return `its other end "${port.name}" not on the bridge`
  const found = listPortVlans(host, port).get(port.index) ?? []
  return isNative(found, native) ? undefined : `its other end "${port.name}" in VLANs ${describeVlans(found)}`
}

function isNative(vlans: readonly VlanRange[], id: number): boolean {
  return vlans.some(({ first, pvid, untagged }) => first === id && pvid && untagged)
}

/** Returns the peer of a veth if both ends are in the host's namespace. */
function peerOnHost(host: NetlinkSocket, { kind, attributes }: Link): Link | undefined {
  if (kind !== "veth" || attributes.link === undefined || attributes.linkNetnsId !== undefined) return undefined
  return findLink(host, attributes.link as Ifindex)
}
