import { addressesOf } from "../../pkg/ip/mod.ts"
import {
  type Cidr,
  CniError,
  Code,
  formatCidr,
  formatIp,
  type IpConfig,
  networkOf,
  nextAddress,
  parseCidr,
  type Result,
} from "../../pkg/types/mod.ts"
import type { BridgeConfig } from "./config.ts"

/** The index of the container's interface in the result, after the bridge and the host's end of the pair. */
export const CONTAINER_INDEX = 2

/**
 * Completes the IPAM plugin's result: the addresses name the container's interface. With `isGateway` each address has a
 * gateway, by default the network's first address. With `isDefaultGateway` each family with a gateway has a default
 * route. The configuration's DNS replaces the IPAM plugin's. Throws `CniError` if a network is too small for a gateway.
 */
export function completeResult(leased: Result, config: BridgeConfig): Result {
  const ips: IpConfig[] = []
  for (const ip of leased.ips) {
    const gateway = ip.gateway ?? (config.isGateway ? firstAddress(ip.address) : undefined)
    ips.push({ ...ip, ...(gateway === undefined ? {} : { gateway }), interface: CONTAINER_INDEX })
  }
  const routes = leased.routes.slice()
  for (const { gateway } of config.isDefaultGateway ? ips : []) {
    if (gateway === undefined) continue
    const dst = gateway.includes(":") ? "::/0" : "0.0.0.0/0"
    if (!routes.some((route) => route.dst === dst && route.table === undefined)) routes.push({ dst, gw: gateway })
  }
  return { interfaces: [], ips, routes, dns: config.dns ?? leased.dns }
}

/** Returns the bridge's gateway addresses without duplicates, with the prefix lengths of the addresses using them. */
export function gatewaysOf(result: Pick<Result, "ips">): Cidr[] {
  const gateways: Cidr[] = []
  const seen = new Set<string>()
  for (const { gateway, prefix } of addressesOf(result)) {
    if (!gateway || seen.has(formatCidr({ ip: gateway, prefix }))) continue
    seen.add(formatCidr({ ip: gateway, prefix }))
    gateways.push({ ip: gateway, prefix })
  }
  return gateways
}

function firstAddress(address: string): string | undefined {
  const cidr = parseCidr(address)
  if (!cidr) return undefined
  if (cidr.prefix > cidr.ip.length * 8 - 2) {
    throw new CniError(
      Code.InvalidNetworkConfig,
      `Cannot choose a gateway for ${address}: the network has no free address`,
      {
        details: 'set a "gateway" in the IPAM configuration, or use a network of at least /30 (IPv4) or /126 (IPv6)',
      },
    )
  }
  return formatIp(nextAddress(networkOf(cidr)))
}
