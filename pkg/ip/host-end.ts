import { findLink, type Ifindex, type Link, type NetlinkSocket, namespaceNumber } from "../netlink/mod.ts"
import type { Netns } from "../netns/mod.ts"
import { readSysctlIfThere, tryWriteSysctl } from "../sysctl/mod.ts"

/**
 * The host's end of a container's interface: the veth that the container's end leads to, and that leads to the
 * container's end. Undefined for other kinds, and for a pair that ends elsewhere. Throws `NetlinkError`.
 */
export function hostEnd(host: NetlinkSocket, sandbox: Pick<Netns, "fd" | "isOwn">, inside: Link): Link | undefined {
  const end = likelyHostEnd(host, inside)
  return end && leadsTo(host, sandbox, end) ? end : undefined
}

/**
 * What `hostEnd` answers, unless two namespaces have links of the same indexes by chance, which is not rare: indexes are
 * small, and begin anew in every namespace. For callers who know the link by something else.
 */
export function likelyHostEnd(host: NetlinkSocket, inside: Link): Link | undefined {
  if (inside.kind !== "veth") return undefined
  const found = findLink(host, peerIndex(inside))
  if (found?.kind !== "veth" || peerIndex(found) !== inside.index) return undefined
  return endsInOwn(found) === endsInOwn(inside) ? found : undefined
}

/** Whether the other end of a host's link is in the container. One question to the kernel. */
export function leadsTo(host: NetlinkSocket, sandbox: Pick<Netns, "fd" | "isOwn">, end: Link): boolean {
  if (endsInOwn(end)) return sandbox.isOwn // a runtime may insist on that
  return namespaceNumber(host, sandbox.fd) === end.attributes.linkNetnsId
}

/** The kernel names the other end's namespace, unless it is the link's own. */
function endsInOwn({ attributes }: Link): boolean {
  return attributes.linkNetnsId === undefined
}

/** Older kernels leave the peer's index out when both ends have the same one, each in its namespace. */
function peerIndex({ attributes, index }: Link): Ifindex {
  return (attributes.link ?? index) as Ifindex
}

/**
 * Has an interface of the host take no routes and addresses from router advertisements, which every container can send,
 * like `sysctl -w net.ipv6.conf.NAME.accept_ra=0`. Returns the value before, for `heedRouters`; undefined when nothing
 * changed. A link without IPv6, as with an MTU below 1280, has no such setting.
 */
export function ignoreRouters(name: string): string | undefined {
  const before = readSysctlIfThere(acceptRa(name))
  if (before === undefined || before === "0") return undefined
  return tryWriteSysctl(acceptRa(name), "0") ? before : undefined
}

/** Takes back what `ignoreRouters` has changed. */
export function heedRouters(name: string, before: string | undefined): void {
  if (before !== undefined) tryWriteSysctl(acceptRa(name), before)
}

function acceptRa(name: string): string {
  return `net/ipv6/conf/${name}/accept_ra`
}
