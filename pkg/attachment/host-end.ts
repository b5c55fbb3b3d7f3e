import { findLink, findNsid, type Ifindex, type Link, type NetlinkSocket } from "../netlink/mod.ts"
import type { Netns } from "../netns/mod.ts"

/** The namespace of a container, as far as a link's other end is looked for in it. */
type Sandbox = Pick<Netns, "fd" | "isOwn">

/**
 * The host's end of a container's interface: the veth that the container's end leads to, and that leads to the
 * container's end. Undefined for other kinds, and for a pair that ends elsewhere. Throws `NetlinkError`.
 */
export function findHostEnd(host: NetlinkSocket, sandbox: Sandbox, inside: Link): Link | undefined {
  const end = findLikelyHostEnd(host, inside)
  return end && leadsTo(host, sandbox, end) ? end : undefined
}

/**
 * Like `findHostEnd`, but may return the end of another pair: two namespaces often have links with the same indexes,
 * because indexes are small and count from 1 in every namespace. For callers that also check something else of the
 * link.
 */
export function findLikelyHostEnd(host: NetlinkSocket, inside: Link): Link | undefined {
  if (inside.kind !== "veth") return undefined
  const found = findLink(host, peerIndex(inside))
  if (found?.kind !== "veth" || peerIndex(found) !== inside.index) return undefined
  return endsInOwn(found) === endsInOwn(inside) ? found : undefined
}

/** Whether the peer of a host's link is in the container. One question to the kernel. */
export function leadsTo(host: NetlinkSocket, sandbox: Sandbox, end: Link): boolean {
  if (endsInOwn(end)) return sandbox.isOwn // a runtime may insist on that
  return findNsid(host, sandbox.fd) === end.attributes.linkNetnsId
}

/** The kernel names the peer's namespace, unless it is the link's own. */
function endsInOwn({ attributes }: Link): boolean {
  return attributes.linkNetnsId === undefined
}

/** Older kernels leave the peer's index out when both ends have the same one, each in its namespace. */
function peerIndex({ attributes, index }: Link): Ifindex {
  return (attributes.link ?? index) as Ifindex
}
