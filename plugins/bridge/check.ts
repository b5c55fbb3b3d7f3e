import { addressesOn, checkAddresses, checkRoutes, hostEnd, Masquerade, mismatch } from "../../pkg/ip/mod.ts"
import { ipam } from "../../pkg/ipam/mod.ts"
import { bridgePortData, findLink, IFF_UP, type Link, RouteSocket } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import type { Call } from "../../pkg/skel/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import type { BridgeConfig } from "./config.ts"
import { gatewaysOf } from "./gateway.ts"

/**
 * Compares the kernel with what ADD answered: the bridge, both ends of the pair, addresses, routes, gateway addresses and
 * the masquerade. Throws a `CniError` that names the first difference, expected and found.
 */
export function checkAttachment(call: Call, config: BridgeConfig): void {
  const { prevResult, name: network } = call.network
  if (!prevResult) throw new CniError(Code.InvalidNetworkConfig, `Cannot check "${call.ifName}": prevResult is missing`)
  ipam.check(call)
  const index = prevResult.interfaces.findLastIndex(({ name, sandbox }) => name === call.ifName && sandbox)
  const recorded = prevResult.interfaces[index]
  if (!recorded) throw mismatch("prevResult", `the interface "${call.ifName}" in a sandbox`, "none")

  using host = RouteSocket.open()
  using sandbox = Netns.open(call.netns)
  using inside = sandbox.run(() => RouteSocket.open())

  const bridge = findLink(host, config.bridge)
  if (bridge?.kind !== "bridge")
    throw mismatch(`"${config.bridge}"`, "a bridge", bridge ? `kind "${bridge.kind}"` : "none")
  if ((bridge.flags & IFF_UP) === 0) throw mismatch(`bridge "${bridge.name}"`, "up", "down")
  if (config.promiscMode && !bridge.attributes.promiscuity)
    throw mismatch(`bridge "${bridge.name}"`, "promiscuous", "not")

  const link = findLink(inside, call.ifName)
  if (!link) throw mismatch(`interface "${call.ifName}" in "${call.netns}"`, "a veth", "none")
  if (recorded.mac && recorded.mac.toLowerCase() !== link.mac)
    throw mismatch(`MAC of "${link.name}"`, recorded.mac, link.mac)
  if ((link.flags & IFF_UP) === 0) throw mismatch(`interface "${link.name}"`, "up", "down")
  const port = hostEnd(host, link)
  if (!port) throw mismatch(`interface "${link.name}"`, "a veth with its peer on the host", `kind "${link.kind}"`)
  if (port.attributes.master !== bridge.index) {
    throw mismatch(`host interface "${port.name}"`, `a port of bridge "${bridge.name}"`, "not one of its ports")
  }

  if (config.hairpinMode && !isHairpin(port)) {
    throw mismatch(`hairpin mode of port "${port.name}"`, "on", "off")
  }

  const addresses = addressesOn(prevResult, index)
  checkAddresses(inside, link, addresses)
  checkRoutes(inside, link, prevResult)
  if (config.isGateway) checkAddresses(host, bridge, gatewaysOf(prevResult))
  if (config.ipMasq && config.ipam) {
    using masquerade = Masquerade.open()
    masquerade.check({ network, containerId: call.containerId, ifName: call.ifName }, addresses, config.ipMasqBackend)
  }
}

function isHairpin({ attributes }: Link): boolean {
  const { slaveKind, slaveData } = attributes.linkInfo ?? {}
  return slaveKind === "bridge" && slaveData !== undefined && bridgePortData.decode(slaveData).hairpin === 1
}
