import {
  addressesOn,
  checkAddresses,
  checkForwarding,
  checkRouteSpecs,
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
import type { PtpConfig } from "./config.ts"
import { hostAddresses, hostRoutes, planContainerRoutes } from "./routes.ts"

/**
 * Compares the kernel with what ADD answered: both ends of the pair, addresses and routes on both sides, forwarding and
 * the masquerade. Throws a `CniError` that names the first difference, expected and found.
 */
export function checkAttachment(call: Call, config: PtpConfig): void {
  const { prevResult } = call.network
  if (!prevResult) throw new CniError(Code.InvalidNetworkConfig, `Cannot check "${call.ifName}": prevResult is missing`)
  ipam.check(call)
  const index = prevResult.interfaces.findLastIndex(({ name, sandbox }) => name === call.ifName && sandbox)
  const recorded = prevResult.interfaces[index]
  if (!recorded) throw mismatch("prevResult", `the interface "${call.ifName}" in a sandbox`, "none")
  const ours = { ips: prevResult.ips.filter((ip) => ip.interface === index), routes: prevResult.routes }

  using host = RouteSocket.open()
  using sandbox = Netns.open(call.netns)
  using inside = sandbox.run(() => RouteSocket.open())

  const link = findLink(inside, call.ifName)
  if (!link) throw mismatch(`interface "${call.ifName}" in "${call.netns}"`, "a veth", "none")
  const end = hostEnd(host, link)
  if (!end) throw mismatch(`interface "${link.name}"`, "a veth with its peer on the host", `kind "${link.kind}"`)
  checkLink(link, recorded, "interface")
  checkEnd(end, prevResult, call)
  if (config.mtu !== undefined && end.mtu !== config.mtu) {
    throw mismatch(`MTU of host interface "${end.name}"`, String(config.mtu), String(end.mtu))
  }

  const addresses = addressesOn(prevResult, index)
  checkAddresses(inside, link, addresses)
  const { first, last } = planContainerRoutes(ours, link)
  checkRouteSpecs(inside, [...first, ...last])
  checkAddresses(host, end, hostAddresses(ours))
  checkRouteSpecs(host, hostRoutes(ours, end))
  for (const length of new Set(addresses.map(({ ip }) => ip.length))) checkForwarding(length)
  if (config.ipMasq) {
    using filter = PacketFilter.find()
    new Masquerade(filter).check(ownerOf(call), addresses, config.ipMasqBackend)
  }
}

function checkLink(link: Link, { mac }: Interface, what: string): void {
  if (mac && mac.toLowerCase() !== link.mac) throw mismatch(`MAC of "${link.name}"`, mac, link.mac)
  if ((link.flags & IFF_UP) === 0) throw mismatch(`${what} "${link.name}"`, "up", "down")
}

/** The host's end has to be the one that ADD answered, and nobody else's. Upstream writes no owner on it. */
function checkEnd(end: Link, { interfaces }: Result, call: Call): void {
  const recorded = interfaces.find(({ name, sandbox }) => name === end.name && !sandbox)
  if (!recorded) {
    const names = interfaces.flatMap(({ name, sandbox }) => (sandbox ? [] : [`"${name}"`])).join(", ")
    throw mismatch(`the peer of "${call.ifName}"`, names || "an interface of prevResult", `"${end.name}"`)
  }
  checkLink(end, recorded, "host interface")
  const owner = ownerComment(ownerOf(call))
  const { alias } = end.attributes
  if (alias && alias !== owner) throw mismatch(`alias of host interface "${end.name}"`, owner, alias)
}
