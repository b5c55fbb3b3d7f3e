import {
  addressesOn,
  checkAddresses,
  checkForwarding,
  checkRoutes,
  hostEnd,
  Masquerade,
  mismatch,
  ownerOf,
} from "../../pkg/ip/mod.ts"
import { ipam } from "../../pkg/ipam/mod.ts"
import { findLink, IFF_UP, type Link, RouteSocket } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { PacketFilter } from "../../pkg/nftables/mod.ts"
import type { Call } from "../../pkg/skel/mod.ts"
import { CniError, Code, type Interface, ownerComment, type Result } from "../../pkg/types/mod.ts"
import { portsOf } from "./chained.ts"
import { checkPort } from "./check-port.ts"
import type { BridgeConfig } from "./config.ts"
import { gatewaysOf } from "./gateway.ts"
import { SpoofCheck } from "./spoof-check.ts"
import { requireVlanFiltering } from "./vlan-filtering.ts"
import { findProblem } from "./vlan-gateway.ts"
import { needsFiltering } from "./vlans.ts"

/**
 * Compares the kernel with what ADD answered and made: the bridge, both ends of the pair and how the bridge treats its end,
 * addresses, routes, gateway addresses, forwarding, the masquerade and the check of MACs. Throws a `CniError` that names
 * the first difference, expected and found.
 */
export function checkAttachment(call: Call, config: BridgeConfig): void {
  const { prevResult } = call.network
  if (!prevResult) throw new CniError(Code.InvalidNetworkConfig, `Cannot check "${call.ifName}": prevResult is missing`)
  ipam.check(call)
  const index = prevResult.interfaces.findLastIndex(({ name, sandbox }) => name === call.ifName && sandbox)
  const recorded = prevResult.interfaces[index]
  if (!recorded) throw mismatch("prevResult", `the interface "${call.ifName}" in a sandbox`, "none")

  using host = RouteSocket.open()
  using sandbox = Netns.open(call.netns)
  using inside = sandbox.run(() => RouteSocket.open())

  const bridge = checkBridge(host, config)
  const link = findLink(inside, call.ifName)
  if (!link) throw mismatch(`interface "${call.ifName}" in "${call.netns}"`, "a veth", "none")
  checkContainerEnd(link, recorded, config)
  const port = hostEnd(host, link) ?? givenPort(host, prevResult, link, call)
  if (!port) throw mismatch(`interface "${link.name}"`, "a veth with its peer on the host", `kind "${link.kind}"`)
  checkPort(host, { bridge, port }, ownerOf(call), config)

  const addresses = addressesOn(prevResult, index)
  checkAddresses(inside, link, addresses)
  checkRoutes(inside, link, prevResult)
  if (config.isGateway) {
    const gateways = gatewaysOf(prevResult)
    checkAddresses(
      host,
      config.vlanGateway ? checkVlanGateway(host, bridge, config.vlanGateway, config) : bridge,
      gateways,
    )
    for (const length of new Set(gateways.map(({ ip }) => ip.length))) checkForwarding(length)
  }
  const masquerades = config.ipMasq && config.ipam !== undefined
  using filter = masquerades || config.checkSpoofing ? PacketFilter.find() : undefined
  if (masquerades) new Masquerade(filter).check(ownerOf(call), addresses, config.ipMasqBackend)
  if (config.checkSpoofing) new SpoofCheck(filter).check(ownerOf(call), { port: port.name, mac: link.mac })
}

/** The host's interface that an earlier plugin of the chain has made. Those that we make have their owner's name. */
function givenPort(host: RouteSocket, { interfaces }: Result, link: Link, call: Call): Link | undefined {
  const ours = ownerComment(ownerOf(call))
  return portsOf(host, interfaces, link).find(({ attributes }) => attributes.alias !== ours)
}

function checkBridge(host: RouteSocket, config: BridgeConfig): Link {
  const bridge = findLink(host, config.bridge)
  if (bridge?.kind !== "bridge") {
    throw mismatch(`"${config.bridge}"`, "a bridge", bridge ? `kind "${bridge.kind}"` : "none")
  }
  expectUp(bridge, "bridge")
  if (config.promiscMode && !bridge.attributes.promiscuity) {
    throw mismatch(`bridge "${bridge.name}"`, "promiscuous", "not")
  }
  if (needsFiltering(config.vlans)) requireVlanFiltering(bridge)
  return bridge
}

function checkContainerEnd(link: Link, { mac }: Interface, { keepDown }: BridgeConfig): void {
  if (mac && mac.toLowerCase() !== link.mac) throw mismatch(`MAC of "${link.name}"`, mac, link.mac)
  if (!keepDown) expectUp(link, "interface")
}

function checkVlanGateway(host: RouteSocket, bridge: Link, name: string, { vlans }: BridgeConfig): Link {
  const link = findLink(host, name)
  const expected = `an interface of bridge "${bridge.name}" in VLAN ${vlans.native}`
  if (!link) throw mismatch(`"${name}"`, expected, "none")
  const problem = findProblem(host, { name, bridge, vlans }, link)
  if (problem !== undefined) throw mismatch(`"${name}"`, expected, problem)
  expectUp(link, "interface")
  return link
}

function expectUp({ flags, name }: Link, what: string): void {
  if ((flags & IFF_UP) === 0) throw mismatch(`${what} "${name}"`, "up", "down")
}
