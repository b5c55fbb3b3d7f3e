import { HostEnds, type RestorableInterface, type RestoringInterfaces } from "../../pkg/attachment/mod.ts"
import { enableForwarding, isForwarding, requireNoRouterAdvertisements } from "../../pkg/ip/mod.ts"
import {
  acceptsRa,
  findRoute,
  getLink,
  IFF_UP,
  type Link,
  listAddresses,
  type RouteSocket,
} from "../../pkg/netlink/mod.ts"
import { AF_INET, type Family, familyOf, formatCidr } from "../../pkg/types/mod.ts"
import type { PtpConfig } from "./config.ts"
import { configureHostEnd, raiseHostEnd } from "./ends.ts"
import { hostAddresses, hostRoutes } from "./routes.ts"

/** Restores the gateway addresses and host routes on the host's ends, brings the ends up, and enables forwarding. */
export function restoreHostEnds({ attachments, host, isDry, tell }: RestoringInterfaces<PtpConfig>): void {
  const ends = new HostEnds(host)
  const forwarded = new Set<Family>()
  for (const one of attachments) {
    try {
      const end = ends.endOf(one)
      const families = familiesOf(one)
      if (isLost(host, end, one)) {
        if (!isDry) restoreEnd(host, end, one, families)
        one.tell(`host's end "${end.name}"`)
      }
      for (const family of families) {
        if (forwarded.has(family) || isForwarding(family)) continue
        forwarded.add(family)
        if (!isDry) enableForwarding(family)
        tell(one.owner.network, `forwarding of ${family === AF_INET ? "IPv4" : "IPv6"}`)
      }
    } catch (error) {
      one.refuse(error)
    }
  }
}

type Ours = RestorableInterface<PtpConfig>

function familiesOf({ recorded }: Ours): Family[] {
  return [...new Set(recorded.addresses.map(({ ip }) => familyOf(ip)))]
}

function isLost(host: RouteSocket, end: Link, { recorded }: Ours): boolean {
  const isDown = (end.flags & IFF_UP) === 0
  return isDown || acceptsRa(end) || missingOf(host, end, recorded).ips.length > 0
}

/** Returns the container's addresses without a gateway on the host's end, or without the host's route. */
function missingOf(host: RouteSocket, end: Link, { ips }: Ours["recorded"]): Pick<Ours["recorded"], "ips"> {
  const found = listAddresses(host, end).map(formatCidr)
  const isThere = (ip: Ours["recorded"]["ips"][number]) =>
    hostAddresses({ ips: [ip] }).every((gateway) => found.includes(formatCidr(gateway))) &&
    hostRoutes({ ips: [ip] }, end).every(({ dst }) => findRoute(host, dst)?.index === end.index)
  return { ips: ips.filter((ip) => !isThere(ip)) }
}

function restoreEnd(host: RouteSocket, end: Link, { recorded }: Ours, families: readonly Family[]): void {
  raiseHostEnd(host, end.name, families)
  const raised = getLink(host, end.index)
  configureHostEnd(host, raised, missingOf(host, end, recorded), { isRepeated: true })
  requireNoRouterAdvertisements(raised)
}
