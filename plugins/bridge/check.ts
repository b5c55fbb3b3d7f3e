import {
  type Checking,
  checkHostEnd,
  checkMac,
  checkUp,
  findHostEnd,
  findRecordedOnHost,
  noHostEnd,
  type Sides,
} from "../../pkg/attachment/mod.ts"
import { checkAddresses, checkForwarding, mismatch } from "../../pkg/ip/mod.ts"
import {
  bridgePortData,
  describeVlans,
  findLink,
  IFF_PROMISC,
  type Infer,
  type Link,
  listPortVlans,
  type NetlinkSocket,
  type RouteSocket,
  type VlanRange,
} from "../../pkg/netlink/mod.ts"
import { familyOf, type Owner, ownerComment, type Result } from "../../pkg/types/mod.ts"
import { portsOf } from "./chained.ts"
import type { BridgeConfig } from "./config.ts"
import { gatewaysOf } from "./gateway.ts"
import { SpoofCheck } from "./spoof-check.ts"
import { requireVlanFiltering } from "./vlan-filtering.ts"
import { findProblem, type VlanGateway } from "./vlan-gateway.ts"
import { needsFiltering, planPort, type VlanConfig } from "./vlans.ts"

/** Checks the bridge, its port's settings, the gateway addresses, forwarding, and the check of source MACs. */
export function checkBridge(checking: Checking, config: BridgeConfig): void {
  const { owner, host, sandbox, filter, link, recorded } = checking
  const { prevResult } = recorded
  const bridge = requireRecordedBridge(host, config, prevResult)
  const port = findHostEnd(host, sandbox, link) ?? givenPort(checking, prevResult, link)
  if (!port) throw noHostEnd(link)
  const onHost = findRecordedOnHost(prevResult, port) ?? { name: port.name }
  checkPort(host, { bridge, port }, owner, { ...config, mtu: onHost.mtu ?? config.mtu })
  checkMac(port, onHost)
  if (config.isGateway) {
    const gateways = gatewaysOf(prevResult)
    const { vlanGateway } = config
    const gatewayLink = vlanGateway
      ? checkVlanGateway(host, { name: vlanGateway, bridge, vlans: config.vlans }, prevResult)
      : bridge
    checkAddresses(host, gatewayLink, gateways)
    for (const family of new Set(gateways.map(({ ip }) => familyOf(ip)))) checkForwarding(family)
  }
  if (config.macspoofchk) new SpoofCheck(filter).check({ owner, port: port.name, mac: link.mac })
}

/** Returns the host's interface of an earlier plugin. Unlike ours, it does not have the owner as alias. */
function givenPort(sides: Sides, { interfaces }: Result, link: Link): Link | undefined {
  const ours = ownerComment(sides.owner)
  return portsOf(sides, interfaces, link).find(({ attributes }) => attributes.alias !== ours)
}

/** Checks the bridge against ADD's result, except for its MTU, which follows the ports'. Throws `CniError`. */
export function requireRecordedBridge(host: RouteSocket, config: BridgeConfig, prevResult: Result): Link {
  const bridge = findLink(host, config.bridge)
  if (bridge?.kind !== "bridge") {
    throw mismatch(`"${config.bridge}"`, "a bridge", bridge ? `kind "${bridge.kind}"` : "none")
  }
  checkUp(bridge, "bridge")
  checkMac(bridge, findRecordedOnHost(prevResult, bridge) ?? { name: bridge.name })
  if (config.promiscMode && (bridge.flags & IFF_PROMISC) === 0) {
    throw mismatch(`bridge "${bridge.name}"`, "promiscuous", "not")
  }
  if (needsFiltering(config.vlans)) requireVlanFiltering(bridge)
  return bridge
}

function checkVlanGateway(host: RouteSocket, gateway: VlanGateway, prevResult: Result): Link {
  const { name, bridge, vlans } = gateway
  const link = findLink(host, name)
  const expected = `an interface of bridge "${bridge.name}" in VLAN ${vlans.native}`
  if (!link) throw mismatch(`"${name}"`, expected, "none")
  const problem = findProblem(host, gateway, link)
  if (problem !== undefined) throw mismatch(`"${name}"`, expected, problem)
  checkUp(link, "interface")
  checkMac(link, findRecordedOnHost(prevResult, link) ?? { name })
  return link
}

/**
 * Checks a port's owner, state and settings. Throws `CniError` with the expected and the found value that differ first.
 */
export function checkPort(
  host: NetlinkSocket,
  { bridge, port }: { bridge: Link; port: Link },
  owner: Owner,
  config: BridgeConfig,
): void {
  if (port.attributes.master !== bridge.index) {
    throw mismatch(`host interface "${port.name}"`, `a port of bridge "${bridge.name}"`, "not one of its ports")
  }
  checkHostEnd(port, owner, config)
  if (config.hairpinMode || config.portIsolation) {
    const { hairpin, isolated } = portDataOf(port)
    if (config.hairpinMode && hairpin !== 1) throw mismatch(`hairpin mode of port "${port.name}"`, "on", "off")
    if (config.portIsolation && isolated !== 1) throw mismatch(`isolation of port "${port.name}"`, "on", "off")
  }
  checkVlans(host, port, config.vlans)
}

/** Checks that the port is in the planned VLANs, and in no others unless it stays in the bridge's default VLAN. */
function checkVlans(host: NetlinkSocket, port: Link, vlans: VlanConfig): void {
  const plan = planPort(vlans)
  if (plan.length === 0) return
  const found = listPortVlans(host, port).get(port.index) ?? []
  const has = new Set(expand(found))
  const wanted = expand(plan)
  const isExact = vlans.preserveDefault || has.size === wanted.length
  if (isExact && wanted.every((vlan) => has.has(vlan))) return
  throw mismatch(`VLANs of port "${port.name}"`, describeVlans(plan), describeVlans(found))
}

/** Returns each VLAN with its flags as text, because ranges cannot be compared: the kernel forms its own. */
function expand(ranges: readonly VlanRange[]): string[] {
  const ids = ({ first, last }: VlanRange) => Array.from({ length: last - first + 1 }, (_, at) => first + at)
  return ranges.flatMap((range) => ids(range).map((id) => `${id} ${range.pvid ?? false} ${range.untagged ?? false}`))
}

function portDataOf({ attributes }: Link): Infer<typeof bridgePortData> {
  const { slaveKind, slaveData } = attributes.linkInfo ?? {}
  return slaveKind === "bridge" && slaveData !== undefined ? bridgePortData.decode(slaveData) : {}
}
