import { COMMENT_MAX_BYTES } from "./userdata.ts"

/** Whose a kernel object is: one attachment of one container to one network. */
export interface Owner {
  network: string
  containerId: string
  ifName: string
}

/** Bytes for each part, which with the two slashes fill a comment. Container ids are mostly 64 hex digits. */
const budget = { containerId: 64, ifName: 25, network: COMMENT_MAX_BYTES - 2 - 64 - 25 }

/**
 * The comment by which an object is found again: `network/containerID/ifname`. A part that is too long, or that has
 * characters which would have to be escaped somewhere, becomes `prefix~HASH`, with 16 hex digits of its SHA-256: always
 * the same, and no other part's, since "~" is such a character itself.
 */
export function ownerComment({ network, containerId, ifName }: Owner): string {
  return `${networkPrefix(network)}${part(containerId, budget.containerId)}/${part(ifName, budget.ifName)}`
}

/** What the comments of all attachments to this network begin with, and no others. */
export function networkPrefix(network: string): string {
  return `${part(network, budget.network)}/`
}

function part(text: string, maxBytes: number): string {
  const isPlain = /^[A-Za-z0-9._@-]+$/.test(text)
  if (isPlain && text.length <= maxBytes) return text
  const hash = new Bun.CryptoHasher("sha256").update(text).digest("hex").slice(0, 16)
  const prefix = text.replace(/[^A-Za-z0-9._@-]/g, "_").slice(0, maxBytes - 1 - hash.length)
  return `${prefix}~${hash}`
}
