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

/** Where a container's interface is looked for. */
interface Place {
  namespace: NamespaceFile
  ifName: string
}

/**
 * Deletes the interface of an attachment, and with a pair its host's end, like `ip link del`. Found by its name where the
 * namespace is there, else by its owner's name. An interface of that name that belongs to another attachment stays. Nothing
 * there is success. Throws `CniError`, after everything that can be deleted is.
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

/** The host's end of the container's interface, if it can be the owner's. */
function findOwnEnd(host: NetlinkSocket, { namespace, ifName }: Place, comment: string): Link | undefined {
  using sandbox = Netns.find(namespace)
  if (!sandbox) return undefined
  using inside = sandbox.openRoute()
  const link = findLink(inside, ifName)
  const end = link && findLikelyHostEnd(host, link)
  if (!end) return undefined
  const { alias } = end.attributes
  if (alias === comment) return end // it is deleted, also when it leads elsewhere
  // What upstream made has no alias, nor have strangers' links: it has to lead to the container.
  return !alias && leadsTo(host, sandbox, end) && !isGiven(sandbox, link) ? end : undefined
}

/** Whether the container was given a link by host-device: under every name it is the host's. */
function isGiven(sandbox: Netns, link: Link): boolean {
  return new GivenDevices(sandbox).findOwner(link) !== undefined
}

/** An interface without a part on the host. Without an alias it is upstream's, or that of an ADD that was killed. */
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
 * Deletes the interfaces of this network that belong to no valid attachment. Those in running containers are found by
 * nsid, without entering a namespace, see `assignNsid`. Throws `NetlinkError`.
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
 * Deletes the links of a kind with a stale alias in all namespaces that the host has an nsid for. What a container has too many of
 * stays, and is logged. Throws `CniError`.
 */
export function deleteInContainers(kind: LinkKind, isStale: (alias: string) => boolean, log: (line: string) => void) {
  const failures = new Failures(log) // one container that changes its links all the time is not to keep those of others
  failures.attempt("look into all containers", () =>
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

/** The kernel deletes the links of a namespace that went away in its own time, which may be now. */
function deleteIfThere(route: NetlinkSocket, link: Link): void {
  unlessErrno(() => deleteLink(route, link), "ENODEV")
}
