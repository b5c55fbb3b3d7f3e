import { readRecord } from "../devices/mod.ts"
import { findLink, type Link, listLinks, type NetlinkSocket, RouteSocket } from "../netlink/mod.ts"
import { type NamespaceFile, Netns } from "../netns/mod.ts"
import { isOfContainer } from "../types/mod.ts"
import { findHostEnd, type InterfaceKind, interfaceKinds } from "./find.ts"

/** What a DEL says of the container. */
interface Place {
  namespace: NamespaceFile
  containerId: string
  ifName: string
  log: (line: string) => void
}

/**
 * A container's namespace for a DEL that changes what lies inside and has no owner's name; undefined when it has gone. It
 * has gone, too, when the path is another container's by now, as /proc/PID/ns/net can be: interfaces there have that one as their
 * owner, and none has this one. Throws `CniError` and `NetlinkError`.
 */
export function findSandbox({ namespace, containerId, ifName, log }: Place): Netns | undefined {
  const sandbox = Netns.find(namespace)
  if (!sandbox) return undefined
  try {
    if (!isAnothers(sandbox, containerId, ifName)) return sandbox
    log(`"${namespace.path}" is another container's namespace by now: this one's has gone`)
  } catch (error) {
    sandbox[Symbol.dispose]()
    throw error
  }
  sandbox[Symbol.dispose]()
  return undefined
}

function isAnothers(sandbox: Netns, containerId: string, ifName: string): boolean {
  using host = RouteSocket.open()
  using inside = sandbox.run(() => RouteSocket.open())
  const isOwn = (comment: string) => isOfContainer(comment, containerId)
  const first = findLink(inside, ifName)
  const owner = first && ownerOfLink(host, sandbox, first)
  if (owner !== undefined && isOwn(owner)) return false // what is asked of the kernel in most cases
  const owners = listLinks(inside, mayHaveOwner).flatMap((link) => ownerOfLink(host, sandbox, link) ?? [])
  return owners.length > 0 && !owners.some(isOwn)
}

/** A pair that ends in the container itself has none, however many of them a container makes. */
function mayHaveOwner({ kind, attributes: { alias, linkNetnsId, altNames } }: Link): boolean {
  return kind === "veth" ? linkNetnsId !== undefined : alias !== undefined || altNames !== undefined
}

/** Whose one of a container's interfaces is, as `ownerComment` writes it; undefined when nothing says so. */
function ownerOfLink(host: NetlinkSocket, sandbox: Netns, link: Link): string | undefined {
  const device = readRecord(link, sandbox.inode)?.owner
  if (device !== undefined) return device
  const kind = interfaceKinds[link.kind as InterfaceKind]
  const named = kind?.owner === "host" ? findHostEnd(host, sandbox, link) : kind && link
  const alias = named?.attributes.alias
  return alias?.split("/").length === 3 ? alias : undefined
}
