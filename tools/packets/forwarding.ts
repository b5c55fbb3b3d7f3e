import {
  findLink,
  IFF_NOARP,
  type Link,
  type ListedRoute,
  listNeighbours,
  NeighbourState,
  OperState,
  type RouteRefusal,
} from "../../pkg/netlink/mod.ts"
import { AF_INET, familyOf, formatIp, sameBytes } from "../../pkg/types/mod.ts"
import type { NodeAttachment } from "../node/mod.ts"
import { describeRefusal, sysctl, tableText, whyNoArp } from "./facts.ts"
import { RTN } from "./kernel.ts"
import type { Packet } from "./packet.ts"
import type { Container, Trip } from "./trip.ts"

/** Returns the reason why the host does not forward a packet, or undefined if it forwards packets. */
export function whyNotForwarded({ destination, input }: Packet): string | undefined {
  const isIpv4 = familyOf(destination) === AF_INET
  const setting = isIpv4 ? "net/ipv4/ip_forward" : "net/ipv6/conf/all/forwarding"
  if (sysctl(setting) === "0") return `${setting} is 0: the host forwards no packets`
  if (isIpv4 && sysctl(`net/ipv4/conf/${input}/forwarding`) === "0")
    return `net/ipv4/conf/${input}/forwarding is 0: the host forwards no packets from "${input}"`
  return undefined
}

/** Returns why the kernel refuses to forward a packet. One errno stands for several reasons, and differs by kernel. */
export function whyRefused({ kernel }: Trip, { source, destination, input }: Packet, refusal: RouteRefusal): string {
  const from = formatIp(source)
  if (refusal === "ENETUNREACH" || refusal === "EACCES" || refusal === "ESRCH")
    return `the host ${describeRefusal(refusal, destination)}`
  if (kernel.addressType(source) !== RTN.unicast)
    return `${from} is also an address of the host: the kernel drops packets from this source that arrive through "${input}"`
  const filtered = whyReverseFiltered(kernel.routeOf({ dst: source }), source, input, kernel)
  if (filtered !== undefined) return filtered
  if (familyOf(destination) === AF_INET && destination[0] === 127)
    return `${formatIp(destination)} is a loopback address: net/ipv4/conf/${input}/route_localnet is 0`
  return `the host ${describeRefusal(refusal, destination)}`
}

/**
 * Returns the reason why reverse path filtering drops a packet, or undefined. The kernel uses the larger rp_filter of
 * `all` and the interface: net.ipv4.conf.*.rp_filter.
 */
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
  return mode === 1 && towards !== input ? `${says}, and its route to the address is by "${towards}"` : undefined
}

/** Reports whether the kernel refuses a packet because it has no route, and not because of `rp_filter`. */
export function isWithoutRoute({ kernel }: Trip, { source, input }: Packet): boolean {
  return whyReverseFiltered(kernel.routeOf({ dst: source }), source, input, kernel) === undefined
}

/** Reports whether the link, or its lower device, has no carrier. */
export function hasNoCarrier(link: Link | undefined): boolean {
  const state = link?.attributes.operState
  return state === OperState.Down || state === OperState.LowerLayerDown
}

/** Reports a next hop if it did not answer the host's last request for its MAC, or if it was never requested. */
export function tellNeighbour(
  { way, kernel }: Trip,
  { destination, output }: Packet,
  { gateway, index, table }: ListedRoute,
): void {
  const link = index === undefined ? undefined : kernel.link(index)
  const entry = kernel.neighbour(index, gateway ?? destination)
  const silent = whyNoArp(link, output, familyOf(destination))
  if (silent !== undefined) way.notJudged("host", silent)
  if (link && (link.flags & IFF_NOARP) !== 0) return
  const name = gateway === undefined ? formatIp(destination) : `gateway ${formatIp(gateway)}`
  const state = entry?.state ?? 0
  if ((state & NeighbourState.Failed) !== 0) {
    way.pass("host", `${name} did not answer the host's last request for its MAC on "${output}"`, "perhaps")
    way.isUnrouted ||= tableText(table) !== ""
  } else if ((state & (NeighbourState.Permanent | NeighbourState.NoArp)) !== 0)
    way.notJudged("host", `whether the MAC of ${name}, a static entry on "${output}", is right`)
  else if ((entry === undefined && gateway !== undefined) || entry?.state === NUD_INCOMPLETE)
    way.notJudged("host", `whether ${name} exists: the host has not yet received an answer from it on "${output}"`)
}

/** The state after a request without an answer; <linux/neighbour.h>. */
export const NUD_INCOMPLETE = 1

/** Notes what may prevent a container from finding its next hop's MAC, or the host from finding the container's MAC. */
export function tellNextHop(
  { way, node, kernel }: Trip,
  { sandbox, inside }: Container,
  { link: end, ifName }: NodeAttachment,
  ip: Uint8Array,
): void {
  const link = findLink(inside, ifName)
  if (link === undefined || end?.kind !== "veth") return
  const near = node.links.find(({ nsid, index }) => nsid === undefined && index === end.master)?.name ?? end.name
  const family = familyOf(ip)
  const reasons = [sandbox.run(() => whyNoArp(link, ifName, family)), whyNoArp(kernel.link(near), near, family)]
  for (const reason of reasons) if (reason !== undefined) way.notJudged("container", reason)
  const entry = listNeighbours(inside).find((each) => each.index === link.index && sameBytes(each.ip, ip))
  const isOfHost = kernel.addressType(ip) === RTN.local
  if (
    ((entry?.state ?? 0) & NeighbourState.Permanent) !== 0 &&
    !(isOfHost && entry?.mac === kernel.link(near)?.attributes.mac)
  )
    way.notJudged("container", `whether the MAC of ${formatIp(ip)}, a static entry, is right`)
}
