import { sha512 } from "../engine/mod.ts"
import { isErrno } from "../libc/mod.ts"
import {
  atomically,
  type Chain,
  type FoundRule,
  hasNftables,
  listRules,
  type Netfilter,
  remove,
  type Table,
} from "../nftables/mod.ts"
import { type Cidr, CniError, Code, formatIp, type Owner, ownerComment } from "../types/mod.ts"

/** `NFT_CMP_EQ` */
const EQUAL = 0

/** The table of the Go suite. */
export const UPSTREAM_MASQUERADE_TABLE = "cni_plugins_masquerade"
const table: Table = { family: "inet", name: UPSTREAM_MASQUERADE_TABLE }

/** Where the Go suite, from v1.6 on, has one rule for each address with `ipMasqBackend: nftables`. */
const chain: Chain = { table, name: "masq_checks" }
/** What sends packets there. */
const postrouting: Chain = { table, name: "postrouting" }

/**
 * Checks that the addresses of this attachment are masqueraded by the Go suite's nftables backend. Throws `CniError` that
 * tells what was expected, and `NetlinkError` when the rule set cannot be read.
 */
export function checkUpstreamMasquerade(socket: Netfilter, owner: Owner, addresses: readonly Cidr[]): void {
  const isReached = listRules(socket, postrouting).some((rule) => targetsOf(rule).includes(chain.name))
  const prefix = upstreamPrefix(owner)
  const rules = listRules(socket, chain).filter((rule) => rule.comment?.startsWith(prefix) === true)
  const isFor = (rule: FoundRule, ip: Uint8Array) =>
    rule.expressions.some(({ name }) => name === "masq") && comparesWith(rule, ip)
  const isThere = ({ ip }: Cidr) => rules.some((rule) => isFor(rule, ip))
  const missing = isReached ? addresses.find((address) => !isThere(address)) : addresses[0]
  if (!missing) return
  const place = `chain inet ${table.name} ${chain.name}`
  const expected = isReached ? `a rule for ${formatIp(missing.ip)} in ${place}` : `a rule that goes to ${place}`
  const what = `Cannot find the other suite's masquerade of ${ownerComment(owner)}`
  throw new CniError(Code.Internal, `${what}: expected ${expected}; found none`)
}

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
  const isStale = (comment: string) => comment.startsWith(prefix) && !valid.some((keep) => comment.startsWith(keep))
  removeWhere(socket, `what is gone from network "${network}"`, isStale)
}

function removeWhere(socket: Netfilter, whose: string, isStale: (comment: string) => boolean): void {
  try {
    atomically(socket, () =>
      listRules(socket, chain)
        .filter(({ comment }) => comment !== undefined && isStale(comment))
        .map(remove.rule),
    )
  } catch (error) {
    if (isErrno(error, "EINVAL", "EOPNOTSUPP") && !hasNftables(socket)) return
    throw new CniError(Code.Internal, `Cannot remove the other suite's masquerade of ${whose}`, { cause: error })
  }
}

/** The chains that a rule's verdicts send packets to. */
function targetsOf({ expressions }: FoundRule): string[] {
  return expressions.flatMap(({ name, data }) =>
    name === "immediate" && !(data instanceof Uint8Array) ? (data.data?.verdict?.chain ?? []) : [],
  )
}

/** Whether a rule is for packets of an address: it is compared as a whole, its network by the bytes of the prefix. */
function comparesWith({ expressions }: FoundRule, ip: Uint8Array): boolean {
  return expressions.some(
    ({ name, data }) =>
      name === "cmp" && !(data instanceof Uint8Array) && data.op === EQUAL && String(data.data?.value) === String(ip),
  )
}

/** What the comments of an attachment's rules begin with: 16 hex digits for the network, and 16 for the interface. */
export function upstreamPrefix({ network, containerId, ifName }: Owner): string {
  return `${digits(network)}-${digits(`${ifName}:${containerId}`)}`
}

function digits(text: string): string {
  return sha512(text).slice(0, 16)
}
