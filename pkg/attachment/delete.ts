import { GivenDevices } from "../devices/mod.ts"
import { unlessErrno } from "../libc/mod.ts"
import {
  deleteEach,
  deleteLink,
  deleteLinks,
  findLink,
  forEachNsid,
  type Link,
  type LinkKind,
  listLinks,
  listLinksInside,
  type NetlinkSocket,
  RouteSocket,
} from "../netlink/mod.ts"
import { type NamespaceFile, Netns } from "../netns/mod.ts"
import { type Owner, ownerComment, staleOf } from "../types/mod.ts"
import { Failures } from "../undo/mod.ts"
import { findLikelyHostEnd, leadsTo } from "./host-end.ts"
import { type InterfaceKind, interfaceKinds } from "./kinds.ts"

interface Place {
  namespace: NamespaceFile
  ifName: string
}

/**
 * Deletes the interface of an attachment, and the host's end of a pair, like `ip link del`. Finds the interface by its
 * name in the namespace, or else by its owner's alias. Keeps an interface with that name that belongs to another
 * attachment. A missing interface is not an error. Throws `CniError`, after deleting as much as possible.
 */
export function deleteInterface(place: Place, owner: Owner, kind: InterfaceKind): void {
  if (interfaceKinds[kind].owner === "host") deletePair(place, ownerComment(owner))
  else deleteInside(place, ownerComment(owner), kind)
}

function deletePair(place: Place, comment: string): void {
  using host = RouteSocket.open()
  const failures = new Failures()
  const what = `find "${place.ifName}" in "${place.namespace.path}"`
  const end = failures.attempt(what, () => findOwnEnd(host, place, comment))
  if (end) deleteIfThere(host, end)
  else
    deleteLinks(
      host,
      listHostEnds(host, (alias) => alias === comment),
    )
  failures.throwIfAny()
}

/** Returns the host's end of the interface with this name, unless it belongs to another attachment. */
function findOwnEnd(host: NetlinkSocket, { namespace, ifName }: Place, comment: string): Link | undefined {
  using sandbox = Netns.find(namespace)
  if (!sandbox) return undefined
  using inside = sandbox.openRoute()
  const link = findLink(inside, ifName)
  const end = link && findLikelyHostEnd(host, link)
  if (!end) return undefined
  const { alias } = end.attributes
  if (alias === comment) return end // deleted even if its peer is in another namespace
  // Links of the Go suite and of other programs have no alias. Their peer must be in the container.
  return !alias && leadsTo(host, sandbox, end) && !isGiven(sandbox, link) ? end : undefined
}

/**
 * Reports whether host-device moved this link to the container. Such a link must not be deleted, because the host owns
 * it.
 */
function isGiven(sandbox: Netns, link: Link): boolean {
  return new GivenDevices(sandbox).findOwner(link) !== undefined
}

/**
 * Deletes an interface without an end on the host. An interface without an alias counts as the attachment's, because
 * the Go suite sets no alias.
 */
function deleteInside({ namespace, ifName }: Place, comment: string, kind: InterfaceKind): void {
  using sandbox = Netns.find(namespace)
  if (!sandbox) return
  using inside = sandbox.openRoute()
  const link = findLink(inside, ifName)
  const isOwn = link?.kind === kind && (link.attributes.alias ?? comment) === comment
  const given = new GivenDevices(sandbox)
  if (link && isOwn) {
    if (given.findOwner(link) === undefined) deleteIfThere(inside, link)
  } else
    deleteLinks(
      inside,
      listLinks(
        inside,
        hasAlias((alias) => alias === comment),
        { kind },
      ).filter((renamed) => given.findOwner(renamed) === undefined),
    )
}

/**
 * Deletes the interfaces of this network's attachments that are not in `valid`. Reaches running containers by nsid,
 * without entering a namespace; see `assignNsid`. Throws `NetlinkError` or `CniError`.
 */
export function deleteOrphans(
  { network, valid, log }: { network: string; valid: readonly Owner[]; log: (line: string) => void },
  kind: InterfaceKind,
): void {
  const isStale = staleOf(network, valid)
  if (interfaceKinds[kind].owner === "container") deleteInContainers(kind, isStale, log)
  else {
    using host = RouteSocket.open()
    deleteLinks(host, listHostEnds(host, isStale))
  }
}

/**
 * Deletes the links of a kind with a stale alias in all namespaces that have an nsid on the host. If a container has
 * too many links, logs this and keeps them. Throws `CniError`.
 */
export function deleteInContainers(kind: LinkKind, isStale: (alias: string) => boolean, log: (line: string) => void) {
  const failures = new Failures(log) // a container that keeps changing its links must not stop deletions in others
  failures.attempt("list the links of all containers", () =>
    forEachNsid((host, nsid) => {
      failures.attempt(`delete all stale links of kind "${kind}" in nsid ${nsid}`, () =>
        deleteEach(host, listLinksInside(host, nsid, hasAlias(isStale), { kind }), nsid),
      )
    }),
  )
  failures.throwIfAny()
}

function listHostEnds(host: NetlinkSocket, isStale: (alias: string) => boolean): Link[] {
  return listLinks(host, hasAlias(isStale), { kind: "veth" })
}

function hasAlias(isWanted: (alias: string) => boolean): (link: Link) => boolean {
  return ({ attributes: { alias } }) => alias !== undefined && isWanted(alias)
}

/** Deletes a link if it exists: the kernel deletes the links of a deleted namespace asynchronously. */
function deleteIfThere(route: NetlinkSocket, link: Link): void {
  unlessErrno(() => deleteLink(route, link), "ENODEV")
}
