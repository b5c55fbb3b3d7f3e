import {
  deleteLink,
  findLink,
  type Ifindex,
  type Link,
  listLinks,
  type NetlinkSocket,
  RouteSocket,
} from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { isOwnerOf, type Owner, ownerComment } from "../../pkg/types/mod.ts"

/** The host's end of a container's interface, found by the index that the container's end knows; undefined for others. */
export function hostEnd(host: NetlinkSocket, inside: Link): Link | undefined {
  const peer = inside.kind === "veth" ? inside.attributes.link : undefined
  const found = peer === undefined ? undefined : findLink(host, peer as Ifindex)
  return found?.kind === "veth" ? found : undefined
}

/**
 * Deletes the veth pair of an attachment: by the container's end where the namespace is there, and whatever host end
 * carries the owner's name, which needs no namespace. An interface of that name that is somebody else's stays.
 */
export function deleteAttachmentLinks({ netns, ifName }: { netns: string; ifName: string }, owner: Owner): void {
  using host = RouteSocket.open()
  using sandbox = Netns.find(netns)
  if (sandbox) {
    using inside = sandbox.run(() => RouteSocket.open())
    const link = findLink(inside, ifName)
    const peer = link && hostEnd(host, link)
    if (peer && mayBe(peer, owner)) deleteLink(host, peer)
    if (link) return
  }
  const comment = ownerComment(owner)
  for (const link of listLinks(host)) {
    if (link.kind === "veth" && link.attributes.alias === comment) deleteLink(host, link)
  }
}

/** Deletes the host ends that belong to this network and to none of the valid attachments. */
export function deleteOrphans(network: string, valid: readonly Owner[]): void {
  using host = RouteSocket.open()
  const keep = new Set(valid.map(ownerComment))
  for (const link of listLinks(host)) {
    const comment = link.attributes.alias
    if (link.kind !== "veth" || comment === undefined || !isOwnerOf(comment, network) || keep.has(comment)) continue
    deleteLink(host, link)
  }
}

/** Whether a host end can be the owner's: it says so, or says nothing, as those that upstream made. */
function mayBe(link: Link, owner: Owner): boolean {
  const { alias } = link.attributes
  return alias === undefined || alias === "" || alias === ownerComment(owner)
}
