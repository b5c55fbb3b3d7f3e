import { sha256 } from "../engine/mod.ts"
import { isPlain } from "./names.ts"
import type { Attachment } from "./network-config.ts"

/** The owner of a kernel object: an interface of a container in a network. */
export interface Owner {
  network: string
  containerId: string
  ifName: string
}

interface AttachmentCall {
  network: { name: string }
  containerId: string
  ifName: string
}

/** Returns the owner of a call's kernel objects. */
export function ownerOf({ network, containerId, ifName }: AttachmentCall): Owner {
  return { network: network.name, containerId, ifName }
}

/** Returns the owners of attachments that GC must keep. */
export function ownersOf(network: string, attachments: readonly Attachment[]): Owner[] {
  return attachments.map(({ containerID, ifname }) => ({ network, containerId: containerID, ifName: ifname }))
}

/** The maximum of bytes for each part. With the slashes they make 127, the length of an nf_tables comment. */
const NETWORK_BYTES = 44
const CONTAINER_BYTES = 64
const NAME_BYTES = 17

/**
 * Returns the owner as the comment of a kernel object, "network/container/interface". DEL and GC find the object by
 * this comment. A part that is too long, and an interface name with characters that need escaping, are replaced by
 * their beginning, "~" and a hash.
 */
export function ownerComment({ network, containerId, ifName }: Owner): string {
  return `${shorten(network, NETWORK_BYTES)}/${shorten(containerId, CONTAINER_BYTES)}/${shorten(ifName, NAME_BYTES)}`
}

/** Reports whether a comment names an owner in this network. */
export function isOwnerOf(comment: string, network: string): boolean {
  return comment.split("/").length === 3 && comment.startsWith(`${shorten(network, NETWORK_BYTES)}/`)
}

/** Returns a function that reports whether a comment names an owner in this network, but not in `valid`. */
export function staleOf(network: string, valid: readonly Owner[]): (comment: string) => boolean {
  const kept = new Set(valid.map(ownerComment))
  return (comment) => isOwnerOf(comment, network) && !kept.has(comment)
}

/** Reports whether a comment names an interface of this container, in any network. */
export function isOfContainer(comment: string, containerId: string): boolean {
  const [, found, ...rest] = comment.split("/")
  return rest.length === 1 && found === shorten(containerId, CONTAINER_BYTES)
}

function shorten(name: string, bytes: number): string {
  if (name.length <= bytes && isPlain(name, "._@-")) return name
  const hash = sha256(name).slice(0, 16)
  return `${name.replace(/[^A-Za-z0-9._@-]/g, "_").slice(0, bytes - 17)}~${hash}`
}
