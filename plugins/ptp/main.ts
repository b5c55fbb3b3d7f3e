import {
  type Attaching,
  type Checking,
  checkHostEnd,
  checkMac,
  defineInterfacePlugin,
  describeInterface,
  findHostEnd,
  findRecordedOnHost,
  type Lease,
  noHostEnd,
} from "../../pkg/attachment/mod.ts"
import {
  addressesOf,
  checkAddresses,
  checkForwarding,
  checkRouteSpecs,
  createVethPair,
  enableForwarding,
  mismatch,
  requireForwarding,
  waitOperational,
} from "../../pkg/ip/mod.ts"
import { Masquerade } from "../../pkg/masquerade/mod.ts"
import { deleteLink, getLink, type Link, type RouteSocket } from "../../pkg/netlink/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import { runPlugin } from "../../pkg/skel/mod.ts"
import { type Family, familyOf, type Interface, ownerComment, type Result } from "../../pkg/types/mod.ts"
import { type PtpConfig, parsePtpConfig, ptpFields } from "./config.ts"
import { configureContainerEnd, configureHostEnd, raiseHostEnd } from "./ends.ts"
import { restoreHostEnds } from "./restore.ts"
import { completeResult } from "./result.ts"
import { hostAddresses, hostRoutes, planContainerRoutes } from "./routes.ts"

export { ptpKeyDocs } from "./config.ts"

/** Connects a container to the host by a veth pair, and adds routes between them. */
export const ptp = defineInterfacePlugin<PtpConfig>({
  name: "ptp",
  kind: "veth",
  fields: ptpFields,
  config: parsePtpConfig,
  complete: completeResult,
  attach: attachPtp,
  check: checkPtp,
  checkRoutes: checkPtpRoutes,
  routesInside: ({ ips, prevResult: { routes } }, link) => planContainerRoutes({ ips, routes }, link),
  requireRoomFor: (_host, result) => familiesOf(result).forEach(requireForwarding),
  rules: (filter) => [new Masquerade(filter)],
  restore: restoreHostEnds,
})

function attachPtp(
  { call, owner, host, sandbox, inside, undo }: Attaching,
  lease: Lease,
  config: PtpConfig,
): Interface[] {
  const { ifName, netns } = call
  const result = lease() // the IPAM plugin cannot be dhcp: only the host is on the link
  const name = createVethPair(host, { sandbox, ifName, mtu: config.mtu, mac: config.mac, alias: ownerComment(owner) })
  undo.defer("create the veth pair", () => deleteLink(host, getLink(host, name)))
  const families = familiesOf(result)
  raiseHostEnd(host, name, families)
  const link = getLink(inside, ifName)
  configureContainerEnd({ sandbox, inside, link }, result, config.acceptRa)
  const end = waitOperational(host, getLink(host, name))
  configureHostEnd(host, end, result)
  for (const family of families) enableForwarding(family) // last, because it is never undone
  return [describeInterface(end), { ...describeInterface(link), sandbox: netns }]
}

function familiesOf(result: Result): Family[] {
  return [...new Set(addressesOf(result).map(({ ip }) => familyOf(ip)))]
}

/** Checks the host's end of the pair, the gateway addresses on it, and forwarding. */
function checkPtp({ call, owner, host, sandbox, link, recorded }: Checking, config: PtpConfig): void {
  const { prevResult, ips, addresses } = recorded
  const end = requireHostEnd(host, sandbox, link)
  const onHost = requireRecorded(end, prevResult, call)
  checkMac(end, onHost)
  checkHostEnd(end, owner, { mtu: onHost.mtu ?? config.mtu })
  checkAddresses(host, end, hostAddresses({ ips }))
  for (const family of new Set(addresses.map(({ ip }) => familyOf(ip)))) checkForwarding(family)
}

function checkPtpRoutes({ host, sandbox, inside, link, recorded }: Checking): void {
  const ours = { ips: recorded.ips, routes: recorded.prevResult.routes }
  const { first, last } = planContainerRoutes(ours, link)
  checkRouteSpecs(inside, [...first, ...last])
  checkRouteSpecs(host, hostRoutes(ours, requireHostEnd(host, sandbox, link)))
}

function requireHostEnd(host: RouteSocket, sandbox: Netns, link: Link): Link {
  const end = findHostEnd(host, sandbox, link)
  if (!end) throw noHostEnd(link)
  return end
}

/** Returns the host's end as recorded in ADD's result. Throws `CniError` if the result names another interface. */
function requireRecorded(end: Link, prevResult: Result, { ifName }: { ifName: string }): Interface {
  const recorded = findRecordedOnHost(prevResult, end)
  if (recorded) return recorded
  const names = prevResult.interfaces.flatMap(({ name, sandbox }) => (sandbox ? [] : [`"${name}"`])).join(", ")
  throw mismatch(`the peer of "${ifName}"`, names || "an interface of prevResult", `"${end.name}"`)
}

if (import.meta.main) runPlugin(ptp)
