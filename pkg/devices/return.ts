import { waitUntil } from "../ip/mod.ts"
import {
  findLink,
  findNsid,
  type Link,
  listLinks,
  listLinksInside,
  listNsids,
  type NetlinkSocket,
  RouteGroup,
  RouteSocket,
} from "../netlink/mod.ts"
import { type NamespaceFile, Netns } from "../netns/mod.ts"
import { type Owner, ownerComment, staleOf } from "../types/mod.ts"
import { Failures } from "../undo/mod.ts"
import { forEach, giveBack, giveBackFrom, isHardware, isOf, restoreOnHost } from "./move.ts"
import { aliasedFormer, readRecord } from "./record.ts"

/** How long the kernel may take to put a device on the host when the device's namespace has gone. */
const RETURN_DEADLINE_MS = 1000

/** A device that shall be the host's again, as far as DEL knows of it. */
export interface Returning {
  owner: Owner
  /** Where the container has it, and under which name, if its namespace is there. */
  namespace: NamespaceFile
  ifName: string
  /** Whether a device that the Go suite has moved, which writes no owner, can be the one. */
  mayBe: (link: Link) => boolean
  /** Looks whether the host has the device again, without a word of its owner. Undefined where there is nothing to wait for. */
  hasReturned?: (() => boolean) | undefined
}

/**
 * Makes an attachment's device the host's again, as it was: from the host itself, where the kernel may have put it, from the
 * container, or from another namespace that can be entered. That it is nowhere is success. Throws `CniError`.
 */
export function returnDevice(host: RouteSocket, { owner, namespace, ifName, mayBe, hasReturned }: Returning): void {
  const comment = ownerComment(owner)
  const isOwn = (each: string) => each === comment
  if (restoreOnHost(host, isOwn)) return
  using sandbox = Netns.find(namespace)
  if (sandbox && giveBackFrom(host, sandbox, isOwn)) return
  if (giveBackFromAll(host, isOwn)) return
  if (sandbox) giveBackUpstreams(host, sandbox, ifName, mayBe)
  else if (hasReturned) awaitReturn(() => restoreOnHost(host, isOwn) || hasReturned())
}

/** Gives back the container's interface when it is a device that the Go suite has moved there. */
function giveBackUpstreams(host: RouteSocket, sandbox: Netns, ifName: string, mayBe: Returning["mayBe"]): void {
  using inside = sandbox.run(() => RouteSocket.open())
  const link = findLink(inside, ifName)
  const former = link && aliasedFormer(link)
  if (former && !readRecord(link, sandbox.inode) && mayBe(link)) giveBack(host, inside, link, former)
}

/** The kernel deletes a namespace in its own time; then the device is on the host, unless it was a virtual one. */
function awaitReturn(hasReturned: () => boolean): void {
  using events = RouteSocket.subscribe(RouteGroup.Link)
  waitUntil(events, RETURN_DEADLINE_MS, hasReturned)
}

/** Makes devices the host's again that belong to this network and to none of the valid attachments. Throws `CniError`. */
export function returnOrphans(network: string, valid: readonly Owner[]): void {
  const isOrphan = staleOf(network, valid)
  using host = RouteSocket.open()
  const failures = new Failures()
  failures.attempt("restore the devices of the host", () => restoreOnHost(host, isOrphan))
  failures.attempt("give back the devices of containers", () => giveBackFromAll(host, isOrphan))
  failures.throwIfAny()
}

/**
 * Gives back the hardware of these owners out of all namespaces that the host knows and that can be entered. Returns whether
 * there was some. A virtual device, with anything written on it, may be one that a container has made.
 */
function giveBackFromAll(host: RouteSocket, isWanted: (owner: string) => boolean): boolean {
  const isOrphan = (inode?: bigint) => (link: Link) => isHardware(link) && isOf(isWanted, inode)(link)
  const holding: number[] = []
  const failures = new Failures()
  for (const nsid of listNsids(host)) {
    failures.attempt(`list the devices in nsid ${nsid}`, () => {
      if (listLinksInside(host, nsid, isOrphan()).length > 0) holding.push(nsid)
    })
  }
  const hasGiven = forEach(holding, (nsid) => {
    using netns = Netns.search(({ fd }) => findNsid(host, fd) === nsid)
    using inside = netns?.run(() => RouteSocket.open())
    if (!netns || !inside) return
    forEach(listLinks(inside, isOrphan(netns.inode)), (link) => giveBack(host, inside, link))
  })
  if (!hasGiven) failures.throwIfAny() // it may be there
  return hasGiven
}

/** Another namespace that the host knows, with a device in it. */
export interface Elsewhere {
  nsid: number
  link: Link
  /** Undefined when nothing says whose it is there. */
  owner: string | undefined
}

/** The first link that is wanted in the namespaces that the host has an nsid for. */
export function findElsewhere(host: NetlinkSocket, isWanted: (link: Link) => boolean): Elsewhere | undefined {
  for (const nsid of listNsids(host)) {
    const [link] = listLinksInside(host, nsid, isWanted)
    if (link) return { nsid, link, owner: readRecord(link)?.owner }
  }
  return undefined
}
