import {
  type Attaching,
  defineInterfacePlugin,
  describeInterface,
  type Lease,
  type Sides,
} from "../../pkg/attachment/mod.ts"
import {
  announceAddresses,
  configureLink,
  enableForwarding,
  refuseRouterAdvertisements,
  requireForwarding,
  waitOperational,
} from "../../pkg/ip/mod.ts"
import { Masquerade } from "../../pkg/masquerade/mod.ts"
import { findLink, getLink, type Link, type RouteSocket, setLink } from "../../pkg/netlink/mod.ts"
import { runPlugin } from "../../pkg/skel/mod.ts"
import { type Family, familyOf, type Interface, ownerComment, type Result } from "../../pkg/types/mod.ts"
import { claimBridgeName, ensureGateway, requireBridge, requireRoomFor } from "./bridge-link.ts"
import { joinEarlierInterface, leaveBridge } from "./chained.ts"
import { checkBridge } from "./check.ts"
import { type BridgeConfig, bridgeFields, parseBridgeConfig } from "./config.ts"
import { completeResult, gatewaysOf } from "./gateway.ts"
import { joinBridge, preparePort } from "./port.ts"
import { restoreBridges } from "./restore.ts"
import { SpoofCheck } from "./spoof-check.ts"
import { ensureVlanGateway, requireVlanGateway } from "./vlan-gateway.ts"

export { bridgeKeyDocs } from "./config.ts"

/** Attaches a container to a bridge of the host by a veth pair. */
export const bridge = defineInterfacePlugin<BridgeConfig, Link | undefined>({
  name: "bridge",
  kind: "veth",
  fields: bridgeFields,
  config: parseBridgeConfig,
  complete: completeResult,
  chained: joinEarlierInterface,
  prepare: findUsableBridge,
  attach: attachToBridge,
  check: checkBridge,
  requireUsable: requireLinks,
  requireRoomFor: requireRoomForGateways,
  rules: (filter) => [new Masquerade(filter), new SpoofCheck(filter)],
  detach: leaveBridge,
  restore: restoreBridges,
})

/** Returns the bridge; undefined if it does not exist. Throws `CniError` if ADD cannot use the link with its name. */
function findUsableBridge({ host }: Attaching, config: BridgeConfig): Link | undefined {
  const found = claimBridgeName(host, config.bridge)
  if (found) requireBridge(found, config)
  return found
}

function attachToBridge(attaching: Attaching, lease: Lease, config: BridgeConfig, seen: Link | undefined): Interface[] {
  const { call, owner, host, sandbox, inside, filter, undo } = attaching
  const { ifName, netns } = call
  const { bridge, port } = joinBridge(host, config, { sandbox, ifName, alias: ownerComment(owner), seen }, undo)
  preparePort(host, { bridge, port }, config)
  const link = getLink(inside, ifName)
  if (config.macspoofchk) new SpoofCheck(filter).add({ owner, port, mac: link.mac }, undefined, undo, call.log)
  refuseRouterAdvertisements(port)
  setLink(host, port, { up: true }) // frames can pass from now on
  const { disableContainerInterface, enabledad, acceptRa } = config
  const result = lease()
  if (!disableContainerInterface)
    configureLink({ sandbox, inside, link }, result, { detectDuplicates: enabledad, acceptRa })
  const end = getLink(host, port)
  const portLink = disableContainerInterface ? end : waitOperational(host, end)
  if (!disableContainerInterface && result.ips.length > 0) announceAddresses(inside, link)

  const gateways = config.isGateway ? gatewaysOf(result) : []
  const vlan = config.vlanGateway ? { name: config.vlanGateway, bridge, vlans: config.vlans } : undefined
  const gatewayLink = vlan ? ensureVlanGateway(host, vlan) : bridge
  for (const gateway of gateways) ensureGateway(host, gatewayLink, gateway, config.forceAddress)
  const interfaces = [
    describeInterface(getLink(host, bridge.index)), // after the port has joined: a MAC that is not fixed may follow the port's MAC
    describeInterface(portLink),
    { ...describeInterface(link), sandbox: netns },
    ...(vlan ? [describeInterface(gatewayLink)] : []),
  ]
  for (const family of familiesOf(gateways)) enableForwarding(family) // last, because it is never undone
  return interfaces
}

function familiesOf(gateways: readonly { ip: Uint8Array }[]): Set<Family> {
  return new Set(gateways.map(({ ip }) => familyOf(ip)))
}

/** Checks that ADD can use the bridge and the interface in the VLAN. Ignores missing ones, because ADD creates them. */
function requireLinks({ host, filter }: Pick<Sides, "host" | "filter">, config: BridgeConfig): void {
  if (config.macspoofchk) new SpoofCheck(filter).requireUsable()
  const bridge = findLink(host, config.bridge)
  if (!bridge) return
  requireBridge(bridge, config)
  if (config.vlanGateway) requireVlanGateway(host, { name: config.vlanGateway, bridge, vlans: config.vlans })
}

function requireRoomForGateways(host: RouteSocket, result: Result, config: BridgeConfig): void {
  const gateways = config.isGateway ? gatewaysOf(result) : []
  const link = findLink(host, config.vlanGateway ?? config.bridge)
  for (const gateway of gateways) if (link) requireRoomFor(host, link, gateway, config.forceAddress)
  for (const family of familiesOf(gateways)) requireForwarding(family)
}

if (import.meta.main) runPlugin(bridge)
