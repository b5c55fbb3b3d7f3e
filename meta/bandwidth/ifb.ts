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

/** The device's `txqueuelen`, which qdiscs of other programs use, unlike ours. Upstream's 0 would act as 1. */
const QUEUE_LENGTH = 1000

export interface IfbOwner {
  owner: Owner
  /** Upstream's name, made from network and container only, so it fits only one of the container's interfaces. */
  upstreamName: string
  /** A name that is unique to the attachment. */
  ownName: string
}

/**
 * Returns the owner and the names of an attachment's ifb device, which queues the packets that another link receives.
 * Do not repeat this call, because hashing takes time.
 */
export function ifbOwner(owner: Owner): IfbOwner {
  const { network, containerId } = owner
  const upstreamName = `bwp${sha512(network + containerId).slice(0, 12)}`
  return { owner, upstreamName, ownName: `bwp${sha256(ownerComment(owner)).slice(0, 12)}` }
}

/**
 * Creates the ifb device of an attachment, down, like `ip link add NAME type ifb`. It has its owner as alias at once.
 * Its name is unique to the attachment until `startIfb` renames it. Throws `CniError`.
 */
export function addIfb(route: NetlinkSocket, whose: IfbOwner, { mtu }: Link, undo: Undo): Link {
  const { owner, ownName: name } = whose
  const spec = { kind: "ifb", name, mtu, txQueueLength: QUEUE_LENGTH, data: {} } as const
  let made: Link | undefined
  try {
    addAliasedLink(route, spec, ownerComment(owner))
    undo.defer(`create ifb "${name}"`, () => deleteLink(route, made ?? getLink(route, name))) // `startIfb` may have renamed it
  } catch (cause) {
    const details = isErrno(cause, "EOPNOTSUPP") ? noKind("ifb") : String(cause)
    throw new CniError(Code.Internal, `Cannot create ifb "${name}"`, { details, cause })
  }
  made = getLink(route, name)
  return made
}

/** Brings the device up and gives it upstream's name, unless another link has that name. Returns the changed device. */
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

/** The data that identifies upstream's ifb device, which has no alias. */
export interface Traces extends IfbOwner {
  /** The indices of the links to which the interface's filters redirect; undefined if the interface is unknown. */
  redirects: readonly number[] | undefined
  prevResult: Result | undefined
}

/**
 * Returns the ifb devices of an attachment: those with its owner as alias, and the one that upstream's plugin created.
 */
export function findIfbs(route: NetlinkSocket, traces: Traces): Link[] {
  const found = [traces.upstreamName, traces.ownName].flatMap((name) => findLink(route, name) ?? [])
  return found.filter((link) => link.kind === "ifb" && isOwn(link, traces))
}

function isOwn({ index, name, attributes: { alias } }: Link, { owner, redirects, prevResult }: Traces): boolean {
  if (alias) return alias === ownerComment(owner)
  if (redirects?.includes(index)) return true
  // The device may be for another interface of the container. A previous result lists the devices of this attachment.
  if (prevResult) return prevResult.interfaces.some((each) => each.name === name && !each.sandbox)
  return redirects === undefined
}
