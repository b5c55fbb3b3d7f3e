import { readFileSync } from "node:fs"
import { isErrno } from "../../pkg/libc/mod.ts"
import { findLink, findRoute, type Link, type RouteSocket } from "../../pkg/netlink/mod.ts"
import { contains, formatIp, parseCidr, parseIp } from "../../pkg/types/mod.ts"
import type { NodeAttachment, NodeLink } from "../node/mod.ts"
import type { Destination } from "./way.ts"

/** The route to an address, or the reason why it cannot be reached. A route of type blackhole or prohibit is an answer, given as an error. */
export function routeTo(socket: RouteSocket, ip: Uint8Array): NonNullable<ReturnType<typeof findRoute>> | string {
  try {
    return findRoute(socket, ip) ?? `has no route to ${formatIp(ip)}`
  } catch (error) {
    if (isErrno(error, "EINVAL")) return `has a route of type blackhole for ${formatIp(ip)}`
    if (isErrno(error, "EACCES")) return `has a route or rule of type prohibit for ${formatIp(ip)}`
    throw error
  }
}

/** The name of a link, as far as it is there. */
export function nameOf(socket: RouteSocket, index: Link["index"] | undefined): string | undefined {
  return index === undefined ? undefined : findLink(socket, index)?.name
}

/** An attachment's address of the family of the destination. */
export function sourceOf({ addresses }: NodeAttachment, { ip }: Destination): Uint8Array | undefined {
  const own = addresses.flatMap((address) => parseIp(address.split("/")[0] ?? "") ?? [])
  return own.find((each) => each.length === ip.length)
}

/** Whether a link has an address. */
export function isOfLink({ addresses }: NodeLink, ip: Uint8Array): boolean {
  return addresses.some((address) => address.split("/")[0] === formatIp(ip))
}

/** Whether an address is that one, or in its network. */
export function has(address: string, ip: Uint8Array): boolean {
  const cidr = parseCidr(address.includes("/") ? address : `${address}/${8 * ip.length}`)
  return cidr !== undefined && contains(cidr, ip)
}

/** Whether the kernel tracks no further connection. */
export function isConntrackFull(): boolean {
  const [count, most] = ["count", "max"].map((name) => Number(sysctl(`net/netfilter/nf_conntrack_${name}`) ?? 0))
  return count !== undefined && most !== undefined && most > 0 && count >= most
}

/** A value below /proc/sys in this namespace; undefined where the kernel has none. */
export function sysctl(path: string): string | undefined {
  try {
    return readFileSync(`/proc/sys/${path}`, "utf8").trim()
  } catch {
    return undefined
  }
}
