import { isErrno } from "../libc/mod.ts"
import {
  deleteLink,
  findLink,
  type Ifindex,
  type Link,
  listLinks,
  type NetlinkSocket,
  RouteSocket,
} from "../netlink/mod.ts"
import { Netns } from "../netns/mod.ts"
import { type Attachment, CniError, Code, type Interface, isOwnerOf, type Owner, ownerComment } from "../types/mod.ts"
import { Failures } from "../undo/mod.ts"

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
 * The host's end of a container's interface: the veth whose index the container's end knows, and that knows the
 * container's end. Undefined for other kinds, and for a pair that ends elsewhere.
 */
export function hostEnd(host: NetlinkSocket, inside: Link): Link | undefined {
  if (inside.kind !== "veth") return undefined
  const found = findLink(host, peerIndex(inside))
  return found?.kind === "veth" && peerIndex(found) === inside.index ? found : undefined
}

/** Older kernels leave the peer's index out when both ends have the same one, each in its namespace. */
function peerIndex(link: Link): Ifindex {
  return (link.attributes.link ?? link.index) as Ifindex
}

/**
 * Deletes the veth pair of an attachment: by the container's end where the namespace is there, else whatever host end
 * carries the owner's name, which needs no namespace. An interface of that name that is somebody else's stays. Nothing
 * there is success. Throws `CniError`, after everything that can be deleted is.
 */
export function deleteAttachmentLinks({ netns, ifName }: { netns: string; ifName: string }, owner: Owner): void {
  using host = RouteSocket.open()
  const failures = new Failures()
  const end = failures.attempt(`find "${ifName}" in "${netns}"`, () => findHostEnd(host, netns, ifName))
  const comment = ownerComment(owner)
  if (end && mayBe(end, comment)) deleteIfThere(host, end)
  else deleteHostEnds(host, (alias) => alias === comment)
  failures.throwIfAny()
}

/** Deletes the host ends that belong to this network and to none of the valid attachments. Throws `NetlinkError`. */
export function deleteOrphans(network: string, valid: readonly Owner[]): void {
  using host = RouteSocket.open()
  const keep = new Set(valid.map(ownerComment))
  deleteHostEnds(host, (alias) => isOwnerOf(alias, network) && !keep.has(alias))
}

function findHostEnd(host: NetlinkSocket, netns: string, ifName: string): Link | undefined {
  using sandbox = Netns.find(netns)
  if (!sandbox) return undefined
  using inside = sandbox.run(() => RouteSocket.open())
  const link = findLink(inside, ifName)
  return link && hostEnd(host, link)
}

/** Whether a host end can be the owner's: it says so, or says nothing, as those that upstream made. */
function mayBe({ attributes: { alias } }: Link, comment: string): boolean {
  return alias === undefined || alias === "" || alias === comment
}

function deleteHostEnds(host: NetlinkSocket, isGone: (alias: string) => boolean): void {
  for (const link of listLinks(host)) {
    const { alias } = link.attributes
    if (link.kind === "veth" && alias !== undefined && isGone(alias)) deleteIfThere(host, link)
  }
}

/** The kernel deletes the pairs of a namespace that went away in its own time, which may be now. */
function deleteIfThere(host: NetlinkSocket, link: Link): void {
  try {
    deleteLink(host, link)
  } catch (error) {
    if (!isErrno(error, "ENODEV")) throw error
  }
}
