import {
  findRecordedOnHost,
  HostEnds,
  type RestorableInterface,
  type RestoringInterfaces,
} from "../../pkg/attachment/mod.ts"
import {
  enableForwarding,
  isForwarding,
  refuseRouterAdvertisements,
  requireNoRouterAdvertisements,
} from "../../pkg/ip/mod.ts"
import {
  acceptsRa,
  findLink,
  getLink,
  IFF_PROMISC,
  IFF_UP,
  type Link,
  listAddresses,
  type RouteSocket,
  setLink,
} from "../../pkg/netlink/mod.ts"
import { AF_INET, type Cidr, CniError, Code, type Family, familyOf, formatCidr, isWhole } from "../../pkg/types/mod.ts"
import { claimBridgeName, ensureBridge, ensureGateway, requireBridge } from "./bridge-link.ts"
import { checkPort } from "./check.ts"
import type { BridgeConfig } from "./config.ts"
import { gatewaysOf } from "./gateway.ts"
import { preparePort } from "./port.ts"
import { SpoofCheck } from "./spoof-check.ts"
import { ensureVlanGateway, findProblem } from "./vlan-gateway.ts"
import { needsFiltering, planPort } from "./vlans.ts"

type Ours = RestorableInterface<BridgeConfig>
type Restoring = RestoringInterfaces<BridgeConfig>

/**
 * Restores bridges with their MACs, gateway addresses and ports, forwarding, and the checks of source MACs. If a port
 * is now on another bridge, the port stays there.
 */
export function restoreBridges(restoring: Restoring): void {
  const ends = new HostEnds(restoring.host)
  const placed = restoring.attachments.flatMap((one) => {
    try {
      return [{ one, port: ends.endOf(one) }]
    } catch (error) {
      one.refuse(error)
      return []
    }
  })
  for (const ours of Map.groupBy(placed, ({ one }) => one.config.bridge).values()) {
    try {
      restoreBridge(restoring, ours)
    } catch (error) {
      ours[0]?.one.refuse(error)
    }
  }
  restoreForwarding(restoring)
  const guarded = placed.filter(({ one }) => one.config.macspoofchk)
  if (guarded.length === 0) return
  const wanted = guarded.map(({ one: { owner, recorded, tell, refuse }, port }) => ({
    spec: { owner, port: port.name, mac: recorded.interface.mac ?? "" },
    made: () => tell("check of MACs"),
    refuse,
  }))
  new SpoofCheck(restoring.filter).restore(wanted, restoring)
}

interface Placed {
  readonly one: Ours
  /** The host's end of the pair. */
  readonly port: Link
}

/** Restores a bridge with its ports and addresses, or nothing if it cannot be created. Throws `CniError`. */
function restoreBridge(restoring: Restoring, placed: readonly Placed[]): void {
  const { host, isDry, tell } = restoring
  const newest = placed.at(-1)?.one
  if (!newest) return
  const { config, owner } = placed.findLast(({ one }) => needsFiltering(one.config.vlans))?.one ?? newest
  const present = isDry ? findLink(host, config.bridge) : claimBridgeName(host, config.bridge)
  if (present) requireBridge(present, config)
  const wanted = { ...config, promiscMode: placed.some(({ one }) => one.config.promiscMode) }
  const lost = lostOf(present, wanted)
  if (lost !== undefined) tell(owner.network, lost)
  let bridge = present
  if (!isDry) {
    bridge = ensureBridge(host, wanted, present)
    const mac = present ? undefined : findRecordedOnHost(newest.result, bridge)?.mac
    if (mac) setLink(host, bridge, { mac })
    const { index } = bridge
    if (lost !== undefined) attempt(newest, () => requireNoRouterAdvertisements(getLink(host, index)))
  }
  for (const each of placed) attempt(each.one, () => restorePort(restoring, bridge, each))
  for (const [gateway, { one }] of gatewaysFor(placed))
    attempt(one, () => restoreGateway(restoring, bridge, { one, gateway }))
}

function attempt({ refuse }: Ours, act: () => void): void {
  try {
    act()
  } catch (error) {
    refuse(error)
  }
}

/** Describes the lost settings of a bridge; undefined if none is lost. */
function lostOf(link: Link | undefined, { bridge, promiscMode }: BridgeConfig): string | undefined {
  if (!link) return `bridge "${bridge}"`
  const isUp = (link.flags & IFF_UP) !== 0
  const isPromiscuous = !promiscMode || (link.flags & IFF_PROMISC) !== 0
  return isUp && isPromiscuous && !acceptsRa(link) ? undefined : `settings of bridge "${bridge}"`
}

function restorePort({ host, isDry }: Restoring, bridge: Link | undefined, { one, port }: Placed): void {
  const { owner, config, tell } = one
  const { master } = port.attributes
  if (bridge && master && master !== bridge.index)
    throw new CniError(Code.Internal, `Cannot restore port "${port.name}" of bridge "${bridge.name}"`, {
      details: `it now belongs to "${findLink(host, master as Link["index"])?.name ?? `link number ${master}`}"`,
    })
  const accepts = acceptsRa(port)
  const expected = config.mtu === undefined ? config : { ...config, mtu: undefined }
  if (bridge && isWhole(() => checkPort(host, { bridge, port }, owner, expected)) && !accepts) return
  if (bridge && !isDry) {
    // The port is down while it joins, so that no frame passes before its settings apply.
    const isGuarded = config.portIsolation || config.macspoofchk || planPort(config.vlans).length > 0
    if (isGuarded) setLink(host, port, { up: false })
    if (master !== bridge.index) setLink(host, port, { master: bridge.index })
    preparePort(host, { bridge, port: port.name }, config)
    refuseRouterAdvertisements(port.name)
    setLink(host, port, { up: true })
    const made = getLink(host, port.index)
    checkPort(host, { bridge, port: made }, owner, expected)
    requireNoRouterAdvertisements(made)
  }
  tell(`port "${port.name}" of bridge "${config.bridge}"`)
}

/** Returns the containers' gateway addresses without duplicates, each with an attachment that uses it. */
function gatewaysFor(placed: readonly Placed[]): Map<Cidr, Placed> {
  const found = new Map<string, [Cidr, Placed]>()
  for (const each of oneForEach(placed, ({ one }) => one)) {
    const { config, recorded } = each.one
    for (const gateway of config.isGateway ? gatewaysOf(recorded) : [])
      found.set(`${gatewayLinkOf(config)} ${formatCidr(gateway)}`, [gateway, each])
  }
  return new Map(found.values())
}

/** Returns one attachment for each distinct gateway configuration, of which a bridge nearly always has only one. */
function oneForEach<T>(all: readonly T[], attachmentOf: (each: T) => Ours): T[] {
  const wordsOf = ({ config, recorded: { ips, addresses } }: Ours) => {
    const gateways = ips.map(({ gateway }, at) => `${gateway}/${addresses[at]?.prefix}`)
    return `${config.isGateway} ${gatewayLinkOf(config)} ${gateways}`
  }
  return [...new Map(all.map((each) => [wordsOf(attachmentOf(each)), each])).values()]
}

function gatewayLinkOf({ bridge, vlanGateway }: BridgeConfig): string {
  return vlanGateway ?? bridge
}

function restoreGateway(
  { host, isDry, tell }: Restoring,
  bridge: Link | undefined,
  { one: { owner, config }, gateway }: { one: Ours; gateway: Cidr },
): void {
  const name = gatewayLinkOf(config)
  const { vlanGateway, vlans } = config
  let link = bridge
  if (vlanGateway) {
    link = findLink(host, name)
    const place = bridge && { name, bridge, vlans }
    const isThere = place && link && findProblem(host, place, link) === undefined && (link.flags & IFF_UP) !== 0
    if (!isThere) {
      if (place && !isDry) link = ensureVlanGateway(host, place)
      tell(owner.network, `"${name}"`)
    }
  }
  if (!link || !hasAddress(host, link, gateway)) {
    if (link && !isDry) ensureGateway(host, link, gateway, false)
    tell(owner.network, `address ${formatCidr(gateway)} of "${name}"`)
  }
}

function hasAddress(host: RouteSocket, link: Link, wanted: Cidr): boolean {
  return listAddresses(host, link).some((found) => formatCidr(found) === formatCidr(wanted))
}

function restoreForwarding({ attachments, isDry, tell }: Restoring): void {
  const done = new Set<Family>()
  for (const one of oneForEach(attachments, (one) => one)) {
    for (const { ip } of one.config.isGateway ? gatewaysOf(one.recorded) : []) {
      const family = familyOf(ip)
      if (done.has(family)) continue
      done.add(family)
      attempt(one, () => {
        if (isForwarding(family)) return
        if (!isDry) enableForwarding(family)
        tell(one.owner.network, `forwarding of ${family === AF_INET ? "IPv4" : "IPv6"}`)
      })
    }
  }
}
