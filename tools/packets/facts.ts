import { findLink, IFF_NOARP, type Link, type RouteRefusal, type RouteSocket } from "../../pkg/netlink/mod.ts"
import { AF_INET, contains, formatIp, parseCidr, parseIp } from "../../pkg/types/mod.ts"
import type { NodeAttachment, NodeLink } from "../node/mod.ts"
import { readIfThere } from "./kernel.ts"
import type { Destination } from "./packet.ts"

/** Describes a route's refusal, also a blackhole, for a sentence that begins with "the container" or "the host". */
export function describeRefusal(refusal: RouteRefusal, ip: Uint8Array): string {
  if (refusal === "EINVAL") return `has a route or rule of type blackhole for ${formatIp(ip)}`
  if (refusal === "EACCES") return `has a route or rule of type prohibit for ${formatIp(ip)}`
  if (refusal === "EHOSTUNREACH") return `has a route of type unreachable for ${formatIp(ip)}`
  return `has no route to ${formatIp(ip)}`
}

/** Returns text such as ", by table 100", or "" for the tables default, main and local. */
export function tableText(table: number): string {
  return table === 0 || (table >= 253 && table <= 255) ? "" : `, by table ${table}`
}

/** Returns the name of a link, or undefined if it does not exist. */
export function nameOf(socket: RouteSocket, index: Link["index"] | undefined): string | undefined {
  return index === undefined ? undefined : findLink(socket, index)?.name
}

/** Returns an attachment's address in the family of the destination. */
export function sourceOf({ addresses }: NodeAttachment, { ip }: Destination): Uint8Array | undefined {
  const own = addresses.flatMap((address) => parseIp(address.split("/")[0] ?? "") ?? [])
  return own.find((each) => each.length === ip.length)
}

export function isOfLink({ addresses }: NodeLink, ip: Uint8Array): boolean {
  return addresses.some((address) => address.split("/")[0] === formatIp(ip))
}

/** Reports whether an address is equal to another one, or in its subnet. */
export function has(address: string, ip: Uint8Array): boolean {
  const cidr = parseCidr(address.includes("/") ? address : `${address}/${8 * ip.length}`)
  return cidr !== undefined && contains(cidr, ip)
}

export function isConntrackFull(): boolean {
  const [count, most] = ["count", "max"].map((name) => Number(sysctl(`net/netfilter/nf_conntrack_${name}`) ?? 0))
  return count !== undefined && most !== undefined && most > 0 && count >= most
}

/** Returns a value below /proc/sys in this namespace, or `undefined` if it does not exist. */
export function sysctl(path: string): string | undefined {
  return readIfThere(`/proc/sys/${path}`)?.trim()
}

/**
 * Returns the reason why a link of the thread's namespace does not answer requests for its MAC, or undefined if it may
 * answer. IPv6 uses neighbor discovery, which IFF_NOARP also disables.
 */
export function whyNoArp(link: Link | undefined, name: string, family: number): string | undefined {
  if (link?.type === ARPHRD_ETHER && (link.flags & IFF_NOARP) !== 0) return `"${name}" has ARP switched off`
  if (family !== AF_INET) return undefined
  const refusing = ["all", name].find((each) => Number(sysctl(`net/ipv4/conf/${each}/arp_ignore`) ?? 0) === NO_ARP)
  return refusing && `"${name}" does not answer ARP requests: net/ipv4/conf/${refusing}/arp_ignore is ${NO_ARP}`
}

/** <linux/if_arp.h> */
const ARPHRD_ETHER = 1
/** `arp_ignore`: "do not reply for all local addresses", Documentation/networking/ip-sysctl.rst. */
const NO_ARP = 8
