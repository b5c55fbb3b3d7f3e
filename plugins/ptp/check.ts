import {
  checkAddresses,
  checkForwarding,
  checkHostEnd,
  checkInterface,
  checkMac,
  checkRouteSpecs,
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
import { type Link, RouteSocket } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { PacketFilter } from "../../pkg/nftables/mod.ts"
import type { Call } from "../../pkg/skel/mod.ts"
import type { Interface, Result } from "../../pkg/types/mod.ts"
import type { PtpConfig } from "./config.ts"
import { hostAddresses, hostRoutes, planContainerRoutes } from "./routes.ts"

/**
 * Compares the kernel with what ADD answered: both ends of the pair, addresses and routes on both sides, forwarding and
 * the masquerade. Throws a `CniError` that names the first difference, expected and found.
 */
export function checkAttachment(call: Call, config: PtpConfig): void {
  const { prevResult, interface: recorded, ips, addresses } = readRecorded(call)
  ipam.check(call)
  const ours = { ips, routes: prevResult.routes }

  using host = RouteSocket.open()
  using sandbox = Netns.open(call.namespace)
  using inside = sandbox.run(() => RouteSocket.open())

  const link = expectLink(inside, call)
  const end = hostEnd(host, sandbox, link)
  if (!end) throw noHostEnd(link)
  checkInterface(link, recorded)
  checkUp(link, "interface")
  const onHost = checkEnd(end, prevResult, call)
  checkHostEnd(end, ownerOf(call), { mtu: onHost.mtu ?? config.mtu })

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

/** The host's end has to be the one that ADD answered, which is returned. */
function checkEnd(end: Link, prevResult: Result, call: Call): Interface {
  const recorded = recordedOnHost(prevResult, end)
  if (!recorded) {
    const names = prevResult.interfaces.flatMap(({ name, sandbox }) => (sandbox ? [] : [`"${name}"`])).join(", ")
    throw mismatch(`the peer of "${call.ifName}"`, names || "an interface of prevResult", `"${end.name}"`)
  }
  checkMac(end, recorded)
  return recorded
}
