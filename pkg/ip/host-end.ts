import { findLink, type Ifindex, type Link, type NetlinkSocket, namespaceNumber } from "../netlink/mod.ts"
import { isOwnNamespace, type Netns } from "../netns/mod.ts"

/**
 * The host's end of a container's interface: the veth that the container's end leads to, and that leads to the
 * container's end. Undefined for other kinds, and for a pair that ends elsewhere. Throws `NetlinkError`.
 */
export function hostEnd(host: NetlinkSocket, sandbox: Pick<Netns, "fd" | "path">, inside: Link): Link | undefined {
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
export function leadsTo(host: NetlinkSocket, sandbox: Pick<Netns, "fd" | "path">, end: Link): boolean {
  if (endsInOwn(end)) return isOwnNamespace(sandbox.path) // a runtime may insist on that
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
