import {
  checkAddresses,
  checkForwarding,
  checkInterface,
  checkMac,
  checkRoutes,
  checkUp,
  expectLink,
  hostEnd,
  Masquerade,
  mismatch,
  noHostEnd,
  ownerOf,
  readRecorded,
  recordedOnHost,
} from "../../pkg/ip/mod.ts"
import { ipam } from "../../pkg/ipam/mod.ts"
import { findLink, IFF_PROMISC, type Link, RouteSocket } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { PacketFilter } from "../../pkg/nftables/mod.ts"
import type { Call } from "../../pkg/skel/mod.ts"
import { ownerComment, type Result } from "../../pkg/types/mod.ts"
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
  const { prevResult, interface: recorded, addresses } = readRecorded(call)
  ipam.check(call)

  using host = RouteSocket.open()
  using sandbox = Netns.open(call.namespace)
  using inside = sandbox.run(() => RouteSocket.open())

  const bridge = checkBridge(host, config, prevResult)
  const link = expectLink(inside, call)
  checkInterface(link, recorded)
  if (!config.keepDown) checkUp(link, "interface")
  const port = hostEnd(host, sandbox, link) ?? givenPort({ host, sandbox }, prevResult, link, call)
  if (!port) throw noHostEnd(link)
  const onHost = recordedOnHost(prevResult, port) ?? { name: port.name }
  checkPort(host, { bridge, port }, ownerOf(call), { ...config, mtu: onHost.mtu ?? config.mtu })
  checkMac(port, onHost)

  checkAddresses(inside, link, addresses)
  checkRoutes(inside, link, prevResult)
  if (config.isGateway) {
    const gateways = gatewaysOf(prevResult)
    checkAddresses(
      host,
      config.vlanGateway ? checkVlanGateway(host, bridge, config.vlanGateway, config, prevResult) : bridge,
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
function givenPort(
  sides: { host: RouteSocket; sandbox: Netns },
  { interfaces }: Result,
  link: Link,
  call: Call,
): Link | undefined {
  const ours = ownerComment(ownerOf(call))
  return portsOf(sides, interfaces, link).find(({ attributes }) => attributes.alias !== ours)
}

/** Its MTU is not compared: it follows those of its ports. */
function checkBridge(host: RouteSocket, config: BridgeConfig, prevResult: Result): Link {
  const bridge = findLink(host, config.bridge)
  if (bridge?.kind !== "bridge") {
    throw mismatch(`"${config.bridge}"`, "a bridge", bridge ? `kind "${bridge.kind}"` : "none")
  }
  checkUp(bridge, "bridge")
  checkMac(bridge, recordedOnHost(prevResult, bridge) ?? { name: bridge.name })
  if (config.promiscMode && (bridge.flags & IFF_PROMISC) === 0) {
    throw mismatch(`bridge "${bridge.name}"`, "promiscuous", "not")
  }
  if (needsFiltering(config.vlans)) requireVlanFiltering(bridge)
  return bridge
}

function checkVlanGateway(
  host: RouteSocket,
  bridge: Link,
  name: string,
  { vlans }: BridgeConfig,
  prevResult: Result,
): Link {
  const link = findLink(host, name)
  const expected = `an interface of bridge "${bridge.name}" in VLAN ${vlans.native}`
  if (!link) throw mismatch(`"${name}"`, expected, "none")
  const problem = findProblem(host, { name, bridge, vlans }, link)
  if (problem !== undefined) throw mismatch(`"${name}"`, expected, problem)
  checkUp(link, "interface")
  checkMac(link, recordedOnHost(prevResult, link) ?? { name })
  return link
}
