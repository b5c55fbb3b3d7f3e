/** Whose a kernel object is: an interface of a container in a network. */
export interface Owner {
  network: string
  containerId: string
  ifName: string
}

/** Bytes that the parts get; with the slashes 127, what a comment of nf_tables holds besides its NUL. */
const NETWORK_BYTES = 44
const CONTAINER_BYTES = 66

/**
 * The owner as a comment on a kernel object, "network/container/interface": what DEL and GC find it by. A network name
 * or container ID that is too long is cut and gets a hash, after a "~", which neither can hold itself.
 */
export function ownerComment({ network, containerId, ifName }: Owner): string {
  return `${shorten(network, NETWORK_BYTES)}/${shorten(containerId, CONTAINER_BYTES)}/${ifName}`
}

/** Whether a comment names an owner in this network. */
export function isOwnerOf(comment: string, network: string): boolean {
  return comment.split("/").length === 3 && comment.startsWith(`${shorten(network, NETWORK_BYTES)}/`)
}

function shorten(name: string, bytes: number): string {
  if (name.length <= bytes) return name
  const hash = new Bun.CryptoHasher("sha256").update(name).digest("hex").slice(0, 16)
  return `${name.slice(0, bytes - 17)}~${hash}`
}
