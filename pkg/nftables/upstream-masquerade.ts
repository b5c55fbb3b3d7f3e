import { isErrno } from "../libc/mod.ts"
import { CniError, Code, type Owner } from "../types/mod.ts"
import { hasNftables, type Netfilter } from "./netfilter-socket.ts"
import { listRules } from "./read.ts"
import { type Chain, remove } from "./rule-set.ts"
import { atomically } from "./transaction.ts"

/** Where the Go suite, from v1.6 on, has one rule for each address with `ipMasqBackend: nftables`. */
const chain: Chain = { table: { family: "inet", name: "cni_plugins_masquerade" }, name: "masq_checks" }

/**
 * Removes what the Go suite's ADD has left for this attachment, so that a node can change suites with containers running.
 * Its table and chains stay, as its own DEL leaves them. Nothing there is success. Throws `CniError`.
 */
export function deleteUpstreamMasquerade(socket: Netfilter, owner: Owner): void {
  const prefix = upstreamPrefix(owner)
  try {
    atomically(socket, () =>
      listRules(socket, chain).flatMap((rule) => (rule.comment?.startsWith(prefix) ? [remove.rule(rule)] : [])),
    )
  } catch (error) {
    if (isErrno(error, "EINVAL", "EOPNOTSUPP") && !hasNftables(socket)) return
    const { network, containerId, ifName } = owner
    const object = `"${ifName}" of container ${containerId} in network "${network}"`
    throw new CniError(Code.Internal, `Cannot remove the other suite's masquerade of ${object}`, { cause: error })
  }
}

/** What the comments of an attachment's rules begin with: 16 hex digits for the network, and 16 for the interface. */
export function upstreamPrefix({ network, containerId, ifName }: Owner): string {
  return `${digits(network)}-${digits(`${ifName}:${containerId}`)}`
}

function digits(text: string): string {
  return new Bun.CryptoHasher("sha512").update(text).digest("hex").slice(0, 16)
}
