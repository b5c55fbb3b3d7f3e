import { sha512 } from "../engine/mod.ts"
import { isErrno } from "../libc/mod.ts"
import { CniError, Code, type Owner } from "../types/mod.ts"
import { hasNftables, type Netfilter } from "./netfilter-socket.ts"
import { listRules } from "./read.ts"
import { type Chain, remove } from "./rule-set.ts"
import { atomically } from "./transaction.ts"

/** The table of the Go suite, in family inet. */
export const UPSTREAM_MASQUERADE_TABLE = "cni_plugins_masquerade"

/** Where the Go suite, from v1.6 on, has one rule for each address with `ipMasqBackend: nftables`. */
const chain: Chain = { table: { family: "inet", name: UPSTREAM_MASQUERADE_TABLE }, name: "masq_checks" }

/**
 * Removes what the Go suite's ADD has left for this attachment, so that a node can change suites with containers running.
 * Its table and chains stay, as its own DEL leaves them. Nothing there is success. Throws `CniError`.
 */
export function deleteUpstreamMasquerade(socket: Netfilter, owner: Owner): void {
  const prefix = upstreamPrefix(owner)
  const { network, containerId, ifName } = owner
  const whose = `"${ifName}" of container ${containerId} in network "${network}"`
  removeWhere(socket, whose, (comment) => comment.startsWith(prefix))
}

/** Removes what the Go suite's ADD has left for all attachments to this network but the valid ones. Throws `CniError`. */
export function gcUpstreamMasquerade(socket: Netfilter, network: string, validOwners: readonly Owner[]): void {
  const prefix = `${digits(network)}-`
  const valid = validOwners.map(upstreamPrefix)
  const isGone = (comment: string) => comment.startsWith(prefix) && !valid.some((keep) => comment.startsWith(keep))
  removeWhere(socket, `what is gone from network "${network}"`, isGone)
}

function removeWhere(socket: Netfilter, whose: string, isGone: (comment: string) => boolean): void {
  try {
    atomically(socket, () =>
      listRules(socket, chain).flatMap((rule) =>
        rule.comment !== undefined && isGone(rule.comment) ? [remove.rule(rule)] : [],
      ),
    )
  } catch (error) {
    if (isErrno(error, "EINVAL", "EOPNOTSUPP") && !hasNftables(socket)) return
    throw new CniError(Code.Internal, `Cannot remove the other suite's masquerade of ${whose}`, { cause: error })
  }
}

/** What the comments of an attachment's rules begin with: 16 hex digits for the network, and 16 for the interface. */
export function upstreamPrefix({ network, containerId, ifName }: Owner): string {
  return `${digits(network)}-${digits(`${ifName}:${containerId}`)}`
}

function digits(text: string): string {
  return sha512(text).slice(0, 16)
}
