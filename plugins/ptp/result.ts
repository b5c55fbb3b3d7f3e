import { addressesOf, gatewayOf } from "../../pkg/ip/mod.ts"
import {
  type Cidr,
  CniError,
  Code,
  formatCidr,
  formatIp,
  networkOf,
  nextAddress,
  type Result,
  sameBytes,
} from "../../pkg/types/mod.ts"
import type { PtpConfig } from "./config.ts"

/** The index of the container's interface in the result, after the host's end of the pair. */
export const CONTAINER_INDEX = 1

/** 169.254.1.1 and fe80::1, which may serve every container, because a gateway is used only on its own pair. */
const linkLocalIpv4 = [169, 254, 1, 1]
const linkLocalIpv6 = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]

/**
 * Completes the IPAM plugin's result: the addresses name the container's interface, and each address has a gateway,
 * which becomes an address of the host's end. The configuration's DNS settings replace the IPAM plugin's. Throws
 * `CniError` for a gateway that cannot be an address of the host's end.
 */
export function completeResult(leased: Result, { dns }: Pick<PtpConfig, "dns">): Result {
  const own = addressesOf(leased)
  const ips = own.map((address, at) => {
    const given = leased.ips[at]
    const gateway = usable(gatewayOf(given?.gateway), address, own) ?? chooseGateway(address, own)
    return { ...given, address: formatCidr(address), gateway: formatIp(gateway), interface: CONTAINER_INDEX }
  })
  return { interfaces: [], ips, routes: leased.routes, dns: dns ?? leased.dns }
}

/**
 * Returns the gateway for an address without one: the first address of the network, as in the plugin bridge, or a
 * link-local address if the network is too small or the container has the first address.
 */
function chooseGateway(address: Cidr, own: readonly Cidr[]): Uint8Array {
  const bits = address.ip.length * 8
  const first = nextAddress(networkOf(address))
  if (address.prefix <= bits - 2 && !own.some(({ ip }) => sameBytes(ip, first))) return first
  return new Uint8Array(bits === 32 ? linkLocalIpv4 : linkLocalIpv6)
}

function usable(gateway: Uint8Array | undefined, address: Cidr, own: readonly Cidr[]): Uint8Array | undefined {
  if (!gateway) return undefined
  const refuse = (reason: string) =>
    new CniError(
      Code.InvalidNetworkConfig,
      `Cannot use gateway ${formatIp(gateway)} for ${formatCidr(address)}: ${reason}`,
      { details: "the gateway becomes an address of the host's end of the pair; correct the IPAM configuration" },
    )
  if (gateway.length !== address.ip.length) throw refuse("it is of the other address family")
  if (own.some(({ ip }) => sameBytes(ip, gateway))) throw refuse("it is the container's own address")
  return gateway
}
