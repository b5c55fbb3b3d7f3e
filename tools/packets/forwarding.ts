import type { ListedRoute, RouteRefusal } from "../../pkg/netlink/mod.ts"
import { AF_INET, familyOf, formatIp } from "../../pkg/types/mod.ts"
import { describeRefusal, sysctl } from "./facts.ts"
import { RTN } from "./kernel.ts"
import type { Packet } from "./packet.ts"
import type { Trip } from "./trip.ts"

/** Returns the reason why the host does not forward a packet, or undefined if it does. */
export function whyNotForwarded({ destination, input }: Packet): string | undefined {
  const isIpv4 = familyOf(destination) === AF_INET
  const setting = isIpv4 ? "net/ipv4/ip_forward" : "net/ipv6/conf/all/forwarding"
  if (sysctl(setting) === "0") return `${setting} is 0: the host forwards nothing`
  if (isIpv4 && sysctl(`net/ipv4/conf/${input}/forwarding`) === "0")
    return `net/ipv4/conf/${input}/forwarding is 0: the host forwards nothing from "${input}"`
  return undefined
}

/**
 * Returns the reason why the kernel refuses a forwarded packet. Several reasons share one errno, which differs by
 * kernel.
 */
export function whyRefused({ kernel }: Trip, { source, destination, input }: Packet, refusal: RouteRefusal): string {
  const from = formatIp(source)
  if (refusal === "ENETUNREACH" || refusal === "EACCES" || refusal === "ESRCH")
    return `the host ${describeRefusal(refusal, destination)}`
  if (kernel.addressType(source) !== RTN.unicast)
    return `${from} is an address of the host itself, too: the kernel drops packets with it that come in by "${input}"`
  const filtered = whyReverseFiltered(kernel.routeOf({ dst: source }), source, input, kernel)
  if (filtered !== undefined) return filtered
  if (familyOf(destination) === AF_INET && destination[0] === 127)
    return `${formatIp(destination)} is a loopback address: net/ipv4/conf/${input}/route_localnet is 0`
  return `the host ${describeRefusal(refusal, destination)}`
}

/** net.ipv4.conf.*.rp_filter: the larger of the value for `all` and the interface's applies. */
export function whyReverseFiltered(
  back: ListedRoute | RouteRefusal,
  source: Uint8Array,
  input: string,
  kernel: Trip["kernel"],
): string | undefined {
  if (familyOf(source) !== AF_INET) return undefined
  const mode = Math.max(...["all", input].map((name) => Number(sysctl(`net/ipv4/conf/${name}/rp_filter`) ?? 0)))
  if (mode === 0) return undefined
  const says = `rp_filter of "${input}" is ${mode}: the host drops packets from ${formatIp(source)}`
  if (typeof back === "string") return `${says}, to which it has no route`
  const towards = back.index === undefined ? undefined : kernel.link(back.index)?.name
  return mode === 1 && towards !== input ? `${says}, to which it sends by "${towards}"` : undefined
}

/** Whether the kernel refuses a packet because of a missing route, and not because of `rp_filter`. */
export function isWithoutRoute({ kernel }: Trip, { source, input }: Packet): boolean {
  return whyReverseFiltered(kernel.routeOf({ dst: source }), source, input, kernel) === undefined
}
