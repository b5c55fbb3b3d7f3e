import { CniError, Code } from "./error.ts"
import { ipFamily, parseCidr } from "./ip.ts"
import { type FamilyConfig, type IpConfig040, oldInterface, type Result020, type Result040 } from "./layout.ts"
import type { Result, Route } from "./result.ts"

// The steps between the three layouts of a result. Upwards nothing is lost; downwards goes what the older layout has no
// place for.

/** 0.2.0 to 0.4.0: one address for each family; the family is the key it stood under. */
export function up020({ ip4, ip6, dns }: Result020): Result040 {
  const address = (version: string, family: FamilyConfig | undefined): IpConfig040[] =>
    family ? [{ version, address: family.ip, ...(family.gateway && { gateway: family.gateway }) }] : []
  return {
    interfaces: [],
    ips: [...address("4", ip4), ...address("6", ip6)],
    routes: [...(ip4?.routes ?? []), ...(ip6?.routes ?? [])],
    dns,
  }
}

/** 0.4.0 to 1.0.0: the family is no longer written beside the address. */
export function up040({ interfaces, ips, routes, dns }: Result040): Result {
  return { interfaces, ips: ips.map(({ version: _, ...ip }) => ip), routes, dns }
}

/** 1.0.0 to 0.4.0: the family is computed; `mtu`, `socketPath` and `pciID` of interfaces go. */
export function down100({ interfaces, ips, routes, dns }: Result): Result040 {
  return {
    interfaces: interfaces.map(oldInterface),
    ips: ips.map((ip) => ({ version: familyOf(ip.address), ...ip })),
    routes,
    dns,
  }
}

/**
 * 0.4.0 to 0.2.0: the first address that says it is of a family, and the routes of that family; interfaces, further
 * addresses and everything of a route but its destination and gateway go. Throws code 1 when no address is left.
 */
export function down040({ ips, routes, dns }: Result040): Result020 {
  const family = (version: "4" | "6"): FamilyConfig | undefined => {
    const first = ips.find((ip) => ip.version === version)
    if (!first) return undefined
    const own = routes.filter(({ dst }) => familyOf(dst) === version)
    return { ip: first.address, ...(first.gateway && { gateway: first.gateway }), routes: own.map(shortRoute) }
  }
  const ip4 = family("4")
  const ip6 = family("6")
  if (!ip4 && !ip6) throw new CniError(Code.IncompatibleVersion, "cannot convert: no valid IP addresses")
  return { ...(ip4 && { ip4 }), ...(ip6 && { ip6 }), dns }
}

function shortRoute({ dst, gw }: Route): Route {
  return { dst, ...(gw && { gw }) }
}

function familyOf(cidr: string): "4" | "6" {
  const parsed = parseCidr(cidr)
  if (!parsed) throw new CniError(Code.Internal, `Cannot write address "${cidr}": expected one like "192.0.2.1/24"`)
  return ipFamily(parsed.ip)
}
