import { noKind } from "../../pkg/attachment/mod.ts"
import { sha256, sha512 } from "../../pkg/engine/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import {
  addAliasedLink,
  deleteLink,
  findLink,
  getLink,
  type Link,
  type NetlinkSocket,
  setLink,
} from "../../pkg/netlink/mod.ts"
import { CniError, Code, type Owner, ownerComment, type Result } from "../../pkg/types/mod.ts"
import type { Undo } from "../../pkg/undo/mod.ts"

/** Packets that wait in queues that other programs put there; tbf has its own, in bytes. Upstream's 0 would be one. */
const QUEUE_LENGTH = 1000

/** The owner of a device, and the names that it may have. */
export interface IfbOwner {
  owner: Owner
  /** Upstream's name is made of network and container alone: of two interfaces of a container only one can have it. */
  upstreamName: string
  /** No other attachment can have it. */
  ownName: string
}

/** The names of an attachment's device, whose queue limits what another link receives. Made once a call: hashes take time. */
export function ifbOwner(owner: Owner): IfbOwner {
  const { network, containerId } = owner
  const upstreamName = `bwp${sha512(network + containerId).slice(0, 12)}`
  return { owner, upstreamName, ownName: `bwp${sha256(ownerComment(owner)).slice(0, 12)}` }
}

/**
 * Creates the device of an attachment, down, like `ip link add NAME type ifb`. It has its owner's name from the first moment,
 * and one that no other attachment can have: see `startIfb`. Throws `CniError`.
 */
export function addIfb(route: NetlinkSocket, whose: IfbOwner, { mtu }: Link, undo: Undo): Link {
  const { owner, ownName: name } = whose
  const spec = { kind: "ifb", name, mtu, txQueueLength: QUEUE_LENGTH, data: {} } as const
  let made: Link | undefined
  try {
    addAliasedLink(route, spec, ownerComment(owner))
    undo.defer(`create ifb "${name}"`, () => deleteLink(route, made ?? getLink(route, name))) // of another name by then
  } catch (cause) {
    const details = isErrno(cause, "EOPNOTSUPP") ? noKind("ifb") : String(cause)
    throw new CniError(Code.Internal, `Cannot create ifb "${name}"`, { details, cause })
  }
  made = getLink(route, name)
  return made
}

/** Brings the device up, under upstream's name where no other interface has that. Returns it as it is then. */
export function startIfb(route: NetlinkSocket, { upstreamName }: IfbOwner, link: Link): Link {
  try {
    setLink(route, link, { name: upstreamName, up: true })
    return { ...link, name: upstreamName }
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw error
  }
  setLink(route, link, { up: true })
  return link
}

/** The data by which the owner of upstream's ifb device is found, which has no alias. */
export interface Traces extends IfbOwner {
  /** The links that the interface's filters lead to; undefined when the interface is not known. */
  redirects: readonly number[] | undefined
  prevResult: Result | undefined
}

/** The devices of an attachment: those with its owner's name, and the one that upstream made for it. */
export function findIfbs(route: NetlinkSocket, traces: Traces): Link[] {
  const found = [traces.upstreamName, traces.ownName].flatMap((name) => findLink(route, name) ?? [])
  return found.filter((link) => link.kind === "ifb" && isOwn(link, traces))
}

function isOwn({ index, name, attributes: { alias } }: Link, { owner, redirects, prevResult }: Traces): boolean {
  if (alias) return alias === ownerComment(owner)
  if (redirects?.includes(index)) return true
  // Another interface of the container may have it; a result says of which attachment it is.
  if (prevResult) return prevResult.interfaces.some((each) => each.name === name && !each.sandbox)
  return redirects === undefined
}
