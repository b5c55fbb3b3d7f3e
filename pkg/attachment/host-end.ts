import { findLink, findNsid, type Ifindex, type Link, type NetlinkSocket } from "../netlink/mod.ts"
import type { Netns } from "../netns/mod.ts"

type Sandbox = Pick<Netns, "fd" | "isOwn">

/**
 * Returns the host's end of a container's veth: the link that is the peer of `inside` and has `inside` as its peer.
 * Returns undefined if `inside` is no veth, or if its peer is not on the host. Throws `NetlinkError`.
 */
export function findHostEnd(host: NetlinkSocket, sandbox: Sandbox, inside: Link): Link | undefined {
  const end = findLikelyHostEnd(host, inside)
  return end && leadsTo(host, sandbox, end) ? end : undefined
}

/**
 * Like `findHostEnd`, but may return the end of another pair, because links of two namespaces often have the same
 * indexes. The caller must also check another property of the link.
 */
export function findLikelyHostEnd(host: NetlinkSocket, inside: Link): Link | undefined {
  if (inside.kind !== "veth") return undefined
  const found = findLink(host, peerIndex(inside))
  if (found?.kind !== "veth" || peerIndex(found) !== inside.index) return undefined
  return endsInOwn(found) === endsInOwn(inside) ? found : undefined
}

/** Reports whether the peer of a host's link is in the container, with one request. */
export function leadsTo(host: NetlinkSocket, sandbox: Sandbox, end: Link): boolean {
  if (endsInOwn(end)) return sandbox.isOwn // a runtime may pass the host's own namespace
  return findNsid(host, sandbox.fd) === end.attributes.linkNetnsId
}

/**
 * Reports whether a link's peer is in the same namespace. For a peer in another namespace the kernel reports an nsid.
 */
function endsInOwn({ attributes }: Link): boolean {
  return attributes.linkNetnsId === undefined
}

/** Returns the peer's index. Older kernels omit it if both ends have the same index. */
function peerIndex({ attributes, index }: Link): Ifindex {
  return (attributes.link ?? index) as Ifindex
}
