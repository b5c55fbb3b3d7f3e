import { findLink, RouteSocket } from "../../pkg/netlink/mod.ts"
import type { RestorableRules } from "../../pkg/rules/mod.ts"
import type { Restorable, Restoring } from "../../pkg/skel/mod.ts"
import { AF_INET, type Cidr, contains } from "../../pkg/types/mod.ts"
import type { PortmapConfig } from "./config.ts"
import { chooseBackend, Hostports, hasServiceAddresses, portmapSpec } from "./hostports.ts"
import { families, type MappedAddress, mappedAddresses, type PortmapSpec } from "./mapping.ts"
import {
  addressNeedingLocalnet,
  findLocalnetLink,
  type HostLink,
  hostLinksIn,
  isLocalnetOn,
  isLocalnetOnLink,
  switchLocalnetOn,
} from "./route-localnet.ts"

type Ours = Restorable<PortmapConfig>

/** Restores published ports, then the guard, and then `route_localnet`, which is safe only with the guard. */
export function restorePortmap({ attachments, isDry, flows, toIptables, tell, log }: Restoring<PortmapConfig>): void {
  using hostports = Hostports.open()
  using host = RouteSocket.open()
  const known: Reached[] = []
  const prepared = attachments.flatMap((one) => {
    const addresses = mappedAddresses(one.result, one.owner.ifName, one.config.portMappings ?? [])
    const findLink = () => findOwnLink(host, one, addresses, known)
    return addresses.length === 0 ? [] : [{ one, addresses, spec: portmapSpec(one, one.config, addresses, findLink) }]
  })
  const wanted = prepared.map(({ one, spec }) => ({
    spec,
    asked: one.config.backend,
    isAlone: families.some((family) => one.config.conditions[family].length > 0),
    made: () => one.tell("published ports"),
    refuse: one.refuse,
  }))
  const options = { isDry, flows, log }
  if (toIptables) {
    hostports.restore(wanted, { ...options, toIptables })
    return
  }
  const { moving, staying } = besideServices(hostports, wanted)
  if (moving.length > 0) hostports.restore(moving, { ...options, toIptables: true })
  hostports.restore(staying, options)
  if (!prepared.some(({ addresses }) => addresses.some(({ family }) => family === AF_INET)))
    restoreGuard(hostports, attachments, { isDry, tell })
  const links = new Map<string, Ours>()
  for (const { one, addresses, spec } of prepared) {
    const link = spec.openedLink ?? (isDry && one.config.snat ? findComingLink(host, one, addresses) : undefined)
    if (link !== undefined) links.set(link, one)
  }
  for (const [link, { owner, refuse }] of links) {
    if (isLocalnetOn(link)) continue
    try {
      if (!isDry) switchLocalnetOn(link)
      tell(owner.network, `route_localnet of "${link}"`)
    } catch (error) {
      refuse(error)
    }
  }
}

/**
 * Chooses the backend of each attachment while kube-proxy runs in mode ipvs. Attachments whose ports were mapped in
 * nf_tables before that must move to iptables. Refuses attachments that request nftables.
 */
function besideServices<Wanted extends RestorableRules<PortmapSpec>>(hostports: Hostports, wanted: readonly Wanted[]) {
  if (!hasServiceAddresses()) return { moving: [], staying: wanted }
  const chosen = wanted.flatMap((one) => {
    try {
      return [{ ...one, asked: chooseBackend(one.asked) }]
    } catch (error) {
      one.refuse(error)
      return []
    }
  })
  const moving = chosen.filter(({ spec }) => hostports.isInNftables(spec.owner))
  return { moving, staying: chosen.filter((one) => !moving.includes(one)) }
}

/** Restores the guard of `route_localnet` if no mapping of IPv4 includes it. */
function restoreGuard(
  hostports: Hostports,
  attachments: readonly Ours[],
  { isDry, tell }: Pick<Restoring<PortmapConfig>, "isDry" | "tell">,
): void {
  const networks = new Map(
    attachments.flatMap((one) => hostLinksIn(one.result).map((name) => [name, one.owner.network])),
  )
  const open = [...networks.keys()].filter(isLocalnetOnLink)
  if (open.length === 0 || hostports.isGuarded()) return
  if (!isDry) hostports.restoreGuard(open)
  for (const link of open) tell(networks.get(link) ?? "", `guard of route_localnet of "${link}"`)
}

/** A network and the host's interface to it. */
interface Reached {
  readonly network: Cidr
  readonly link: HostLink
}

/**
 * Returns the interface through which ADD reached the container. Returns undefined if it no longer exists, because the
 * host's route may now be another one. Requests the route once for all containers of a bridge and network.
 */
function findOwnLink(
  host: RouteSocket,
  one: Ours,
  addresses: readonly MappedAddress[],
  known: Reached[],
): HostLink | undefined {
  const address = addressNeedingLocalnet(addresses)?.address
  if (!address) return undefined
  const names = hostLinksIn(one.result)
  const isSame = ({ network, link }: Reached) =>
    network.prefix === address.prefix && contains(network, address.ip) && names.includes(link.name)
  const same = known.find(isSame)
  if (same) return same.link
  const found = findLocalnetLink(addresses, host)
  if (!found || !names.includes(found.name)) return undefined
  if (found.isShared) known.push({ network: address, link: found })
  return found
}

/** Returns the interface that another plugin would restore, for a dry run: the last of the result's missing ones. */
function findComingLink(host: RouteSocket, one: Ours, addresses: readonly MappedAddress[]): string | undefined {
  if (!addressNeedingLocalnet(addresses)) return undefined
  return hostLinksIn(one.result).findLast((name) => !findLink(host, name))
}
