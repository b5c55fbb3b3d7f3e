import { sha512 } from "../engine/mod.ts"

/** What a chain's name may have (`XT_EXTENSION_MAXNAMELEN` less the NUL): `iptables` takes no longer ones. */
const CHAIN_NAME_LENGTH = 28
/** What a comment may have (`XT_MAX_COMMENT_LEN` less the NUL). */
const COMMENT_LENGTH = 255

/**
 * The name of a container's chain in a network: `prefix`, and as many hex digits of SHA-512 over network and container
 * id as make 28 characters. As upstream names it, whatever interface is meant.
 */
export function chainName(prefix: string, { network, containerId }: { network: string; containerId: string }): string {
  const hash = sha512(network + containerId)
  return (prefix + hash).slice(0, CHAIN_NAME_LENGTH)
}

/** Upstream's comment on a container's rules, `name: "NET" id: "CID"`, after `prefix`; cut where it is too long. */
export function containerComment(owner: { network: string; containerId: string }, prefix = ""): string {
  const comment = `${networkComment(owner.network, prefix)}${JSON.stringify(owner.containerId)}`
  return comment.length <= COMMENT_LENGTH ? comment : `${comment.slice(0, COMMENT_LENGTH - 3)}...`
}

/** What the comments of all containers of a network begin with. */
export function networkComment(network: string, prefix = ""): string {
  return `${prefix}name: ${JSON.stringify(network)} id: `
}
