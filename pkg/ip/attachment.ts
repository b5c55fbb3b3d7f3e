import { isErrno } from "../libc/mod.ts"
import { deleteLink, findLink, type Link, listLinks, type NetlinkSocket, RouteSocket } from "../netlink/mod.ts"
import { type NamespaceFile, Netns } from "../netns/mod.ts"
import { type Attachment, CniError, Code, type Interface, isOwnerOf, type Owner, ownerComment } from "../types/mod.ts"
import { Failures } from "../undo/mod.ts"
import { leadsTo, likelyHostEnd } from "./host-end.ts"

/** What a plugin's call says of the attachment. */
interface AttachmentCall {
  network: { name: string }
  containerId: string
  ifName: string
}

/** Whose kernel objects a call is about. */
export function ownerOf({ network, containerId, ifName }: AttachmentCall): Owner {
  return { network: network.name, containerId, ifName }
}

/** The owners that GC has to leave alone. */
export function ownersOf(network: string, attachments: readonly Attachment[]): Owner[] {
  return attachments.map(({ containerID, ifname }) => ({ network, containerId: containerID, ifName: ifname }))
}

/**
 * Throws `CniError` when the container has an interface of that name. To be called before anything is leased or made: an
 * ADD that is repeated must not touch what the first one made.
 */
export function refuseExistingInterface(inside: NetlinkSocket, call: { ifName: string; netns: string }): void {
  if (!findLink(inside, call.ifName)) return
  throw new CniError(Code.Internal, `Cannot create interface "${call.ifName}" in "${call.netns}": it already exists`, {
    details: "DEL the attachment that made it first, or choose another CNI_IFNAME",
  })
}

/** A link as results show it. */
export function describeInterface({ name, mac, mtu }: Link): Interface {
  return { name, mac, mtu }
}

/**
 * Deletes the veth pair of an attachment: by the container's end where the namespace is there, else whatever host end
 * carries the owner's name, which needs no namespace. An interface of that name that is somebody else's stays. Nothing
 * there is success. Throws `CniError`, after everything that can be deleted is.
 */
export function deleteAttachmentLinks(place: { namespace: NamespaceFile; ifName: string }, owner: Owner): void {
  using host = RouteSocket.open()
  const failures = new Failures()
  const comment = ownerComment(owner)
  const what = `find "${place.ifName}" in "${place.namespace.path}"`
  const end = failures.attempt(what, () => findOwnEnd(host, place, comment))
  if (end) deleteIfThere(host, end)
  else deleteHostEnds(host, (alias) => alias === comment)
  failures.throwIfAny()
}

/** Deletes the host ends that belong to this network and to none of the valid attachments. Throws `NetlinkError`. */
export function deleteOrphans(network: string, valid: readonly Owner[]): void {
  using host = RouteSocket.open()
  const keep = new Set(valid.map(ownerComment))
  deleteHostEnds(host, (alias) => isOwnerOf(alias, network) && !keep.has(alias))
}

/** The host's end of the container's interface, if it can be the owner's. */
function findOwnEnd(
  host: NetlinkSocket,
  { namespace, ifName }: { namespace: NamespaceFile; ifName: string },
  comment: string,
): Link | undefined {
  using sandbox = Netns.find(namespace)
  if (!sandbox) return undefined
  using inside = sandbox.run(() => RouteSocket.open())
  const link = findLink(inside, ifName)
  const end = link && likelyHostEnd(host, link)
  if (!end) return undefined
  const { alias } = end.attributes
  if (alias === comment) return end // it has to go, whatever it leads to
  // What upstream made says nothing, as strangers do: that one has to lead to the container.
  return !alias && leadsTo(host, sandbox, end) ? end : undefined
}

function deleteHostEnds(host: NetlinkSocket, isGone: (alias: string) => boolean): void {
  const isWanted = ({ kind, attributes: { alias } }: Link) => kind === "veth" && alias !== undefined && isGone(alias)
  for (const link of listLinks(host, isWanted)) deleteIfThere(host, link)
}

/** The kernel deletes the pairs of a namespace that went away in its own time, which may be now. */
function deleteIfThere(host: NetlinkSocket, link: Link): void {
  try {
    deleteLink(host, link)
  } catch (error) {
    if (!isErrno(error, "ENODEV")) throw error
  }
}
