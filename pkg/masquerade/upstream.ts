import { sha512 } from "../engine/mod.ts"
import {
  atomically,
  type Chain,
  type FoundRule,
  listRules,
  NFT_CMP,
  remove,
  type Table,
  targetsOf,
} from "../nftables/mod.ts"
import { type ForeignRules, InTable, missingRules } from "../rules/mod.ts"
import { type Cidr, formatIp, type Owner, ownerComment } from "../types/mod.ts"
import type { MasqueradeSpec } from "./spec.ts"

const table: Table = { family: "inet", name: "cni_plugins_masquerade" }
/** The chain to which the Go plugins, since v1.6, add one rule per address with `ipMasqBackend: nftables`. */
const chain: Chain = { table, name: "masq_checks" }
/** The chain with the jump to that chain. */
const postrouting: Chain = { table, name: "postrouting" }

/** The Go plugins' masquerade in nf_tables, so that a node can change suites while containers run. */
export class UpstreamMasquerade extends InTable implements ForeignRules<MasqueradeSpec> {
  protected readonly table = table.name

  check({ owner, addresses }: MasqueradeSpec): void {
    const { socket } = this
    const isReached = listRules(socket, postrouting).some((rule) => targetsOf(rule).includes(chain.name))
    const prefix = upstreamPrefix(owner)
    const rules = listRules(socket, chain).filter((rule) => rule.comment?.startsWith(prefix) === true)
    const isFor = (rule: FoundRule, ip: Uint8Array) =>
      rule.expressions.some(({ name }) => name === "masq") && comparesWith(rule, ip)
    const isThere = ({ ip }: Cidr) => rules.some((rule) => isFor(rule, ip))
    const missing = isReached ? addresses.find((address) => !isThere(address)) : addresses[0]
    if (!missing) return
    const place = `chain inet ${table.name} ${chain.name}`
    const expected = isReached ? `a rule for ${formatIp(missing.ip)} in ${place}` : `a rule that jumps to ${place}`
    throw missingRules(`the other suite's masquerade of ${ownerComment(owner)}`, expected)
  }

  /** Removes an attachment's rules. Table and chains stay, as with the Go plugins. Throws `NetlinkError`. */
  remove(owner: Owner): void {
    const prefix = upstreamPrefix(owner)
    this.#removeAll((comment) => comment.startsWith(prefix))
  }

  gc(network: string, validOwners: readonly Owner[]): void {
    const prefix = `${digits(network)}-`
    const valid = validOwners.map(upstreamPrefix)
    this.#removeAll((comment) => comment.startsWith(prefix) && !valid.some((keep) => comment.startsWith(keep)))
  }

  #removeAll(isStale: (comment: string) => boolean): void {
    const { socket } = this
    atomically(socket, () =>
      listRules(socket, chain)
        .filter(({ comment }) => comment !== undefined && isStale(comment))
        .map(remove.rule),
    )
  }
}

/** Reports whether a rule compares packets with these bytes: a whole address, or the first bytes of it. */
function comparesWith({ expressions }: FoundRule, ip: Uint8Array): boolean {
  return expressions.some(
    ({ name, data }) =>
      name === "cmp" &&
      !(data instanceof Uint8Array) &&
      data.op === NFT_CMP["=="] &&
      String(data.data?.value) === String(ip),
  )
}

/** Returns the beginning of an attachment's comments: 16 hex digits for the network, 16 for the interface. */
export function upstreamPrefix({ network, containerId, ifName }: Owner): string {
  return `${digits(network)}-${digits(`${ifName}:${containerId}`)}`
}

function digits(text: string): string {
  return sha512(text).slice(0, 16)
}
