import { findLink, findNsid, type Ifindex, type Link, type NetlinkSocket } from "../netlink/mod.ts"
import type { Netns } from "../netns/mod.ts"

/** The part of a container's namespace that is needed to find a link's other end. */
type Sandbox = Pick<Netns, "fd" | "isOwn">

/**
 * Returns the host's end of a container's interface: the veth whose peer is the container's end, and the other way
 * round. Undefined for other kinds, and for a pair with its other end elsewhere. Throws `NetlinkError`.
 */
export function findHostEnd(host: NetlinkSocket, sandbox: Sandbox, inside: Link): Link | undefined {
  const end = findLikelyHostEnd(host, inside)
  return end && leadsTo(host, sandbox, end) ? end : undefined
}

/**
 * Like `findHostEnd`, but may return the end of another pair: two namespaces often have links with the same indexes,
 * which are small and count from 1 in every namespace. For callers that also check something else of the link.
 */
export function findLikelyHostEnd(host: NetlinkSocket, inside: Link): Link | undefined {
  if (inside.kind !== "veth") return undefined
  const found = findLink(host, peerIndex(inside))
  if (found?.kind !== "veth" || peerIndex(found) !== inside.index) return undefined
  return endsInOwn(found) === endsInOwn(inside) ? found : undefined
}

/** Whether the peer of a host's link is in the container. One request. */
export function leadsTo(host: NetlinkSocket, sandbox: Sandbox, end: Link): boolean {
  if (endsInOwn(end)) return sandbox.isOwn // a runtime may require it
  return findNsid(host, sandbox.fd) === end.attributes.linkNetnsId
}

/** The kernel reports the peer's namespace, unless it is the link's own. */
function endsInOwn({ attributes }: Link): boolean {
  return attributes.linkNetnsId === undefined
}

/** Older kernels omit the peer's index if both ends have the same index in their namespaces. */
function peerIndex({ attributes, index }: Link): Ifindex {
  return (attributes.link ?? index) as Ifindex
}
