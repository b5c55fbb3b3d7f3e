import { GivenDevices } from "../devices/mod.ts"
import { isErrno, prepared } from "../libc/mod.ts"
import { findLink, type Link, listLinks, type NetlinkSocket, RouteSocket } from "../netlink/mod.ts"
import { type NamespaceFile, Netns } from "../netns/mod.ts"
import { CniError, Code, isOfContainer } from "../types/mod.ts"
import { findHostEnd } from "./host-end.ts"
import { type InterfaceKind, interfaceKinds } from "./kinds.ts"

interface Place {
  namespace: NamespaceFile
  containerId: string
  ifName: string
}

/**
 * Opens a container's namespace for a chained plugin. Throws `CniError` with code 4 if the namespace does not exist, or
 * if the interface in it belongs to another container.
 */
export function openSandbox({ namespace, containerId, ifName }: Place): Netns {
  return prepared(Netns.open(namespace), (sandbox) => {
    using host = RouteSocket.open()
    using inside = sandbox.openRoute()
    const link = findLink(inside, ifName)
    const owner = link && ownerOfLink(host, sandbox, link, new GivenDevices(sandbox))
    if (owner === undefined || isOfContainer(owner, containerId)) return
    const reason = `its "${ifName}" belongs to another container`
    throw new CniError(Code.InvalidEnvironment, `Cannot use "${namespace.path}" as CNI_NETNS: ${reason}`, {
      details: `the interface belongs to "${owner}", and CNI_CONTAINERID is "${containerId}"`,
    })
  })
}

/**
 * Returns a container's namespace for a DEL that changes objects which record no owner. Returns `undefined` if the
 * namespace no longer exists, has too many links to determine its owner, or is now another container's, which a path
 * such as /proc/PID/ns/net can lead to. Throws `CniError` and `NetlinkError`.
 */
export function findSandbox({
  namespace,
  containerId,
  ifName,
  log,
}: Place & { log: (line: string) => void }): Netns | undefined {
  const sandbox = Netns.find(namespace)
  if (!sandbox) return undefined
  try {
    if (!isAnothers(sandbox, containerId, ifName)) return sandbox
    log(`"${namespace.path}" is now the namespace of another container: that of this container no longer exists`)
  } catch (error) {
    if (!isErrno(error, "ETIME")) {
      sandbox[Symbol.dispose]()
      throw error
    }
    log(`"${namespace.path}" has too many links to determine its owner; the links are deleted with the namespace`)
  }
  sandbox[Symbol.dispose]()
  return undefined
}

function isAnothers(sandbox: Netns, containerId: string, ifName: string): boolean {
  using host = RouteSocket.open()
  using inside = sandbox.openRoute()
  const isOwn = (comment: string) => isOfContainer(comment, containerId)
  const given = new GivenDevices(sandbox)
  const first = findLink(inside, ifName)
  const owner = first && ownerOfLink(host, sandbox, first, given)
  if (owner !== undefined && isOwn(owner)) return false // usually the only request
  let hasOther = false
  for (const link of listLinks(inside, mayHaveOwner)) {
    inside.step("determine the owner of the links")
    const other = inside.spend(() => ownerOfLink(host, sandbox, link, given))
    if (other !== undefined && isOwn(other)) return false
    hasOther ||= other !== undefined
  }
  return hasOther
}

/** Reports whether a link may have an owner. Returns false for a pair that a container has created inside itself. */
function mayHaveOwner({ kind, attributes: { alias, linkNetnsId, altNames } }: Link): boolean {
  return kind === "veth" ? linkNetnsId !== undefined : alias !== undefined || altNames !== undefined
}

/** Returns the owner of a container's interface in the form of `ownerComment`; undefined if it has none. */
function ownerOfLink(host: NetlinkSocket, sandbox: Netns, link: Link, given: GivenDevices): string | undefined {
  // Without a mark no file needs to be read. A container that removes the mark hides its device only from its own
  // chain.
  const isMarked = link.attributes.altNames?.some((name) => name.split(":").length === 3) === true
  const device = isMarked ? given.findOwner(link) : undefined
  if (device !== undefined) return device
  const kind = interfaceKinds[link.kind as InterfaceKind]
  const named = kind?.owner === "host" ? findHostEnd(host, sandbox, link) : kind && link
  const alias = named?.attributes.alias
  return alias?.split("/").length === 3 ? alias : undefined
}
