import { type PortRule, portRulesIn } from "../../meta/portmap/main.ts"
import { commentOf, findEverywhere } from "../../pkg/iptables/mod.ts"
import { listCommented, PacketFilter, tableFamily } from "../../pkg/nftables/mod.ts"

/** A rule, or an element of a set, that names an attachment. */
export interface OwnedRule {
  /** "ip cni_masquerade containers", "ip nat POSTROUTING" */
  readonly place: string
  readonly backend: "nftables" | "iptables"
  /** "network/container/interface", or what the reference suite writes. */
  readonly owner: string
}

/** The packet filter rules that plugins have made. */
export interface FilterRules {
  readonly owned: readonly OwnedRule[]
  readonly ports: readonly PortRule[]
}

/** Tables of either suite. */
const OUR_TABLES = /^cni_/
/** Chains of containers that either suite makes with iptables, and what leads to them. */
const CONTAINER_CHAINS = /^CNI-/
const PARENTS = ["POSTROUTING", "CNI-HOSTPORT-DNAT"]

/** The rules of both packet filters that name an attachment. Throws `EPERM` without CAP_NET_ADMIN. */
export function readOwnedRules(): FilterRules {
  using filter = PacketFilter.find()
  const isOurs = ({ name }: { name: string }) => OUR_TABLES.test(name)
  const { rules, elements } = filter ? listCommented(filter.socket, namesOwner, isOurs) : { rules: [], elements: [] }
  const native = [...rules, ...elements].map(
    ({ table, name, comment }): OwnedRule => ({
      place: `${table.family} ${table.name} ${name}`,
      backend: "nftables",
      owner: ownerIn(comment),
    }),
  )
  const search = { chains: CONTAINER_CHAINS, parents: PARENTS }
  const iptables = findEverywhere(filter?.socket, "nat", search).flatMap(({ family, rules }) =>
    rules.flatMap((rule): OwnedRule[] => {
      const owner = commentOf(rule)
      if (owner === undefined || !namesOwner(owner)) return []
      return [{ place: `${tableFamily[family]} nat ${rule.chain}`, backend: "iptables", owner }]
    }),
  )
  return { owned: [...native, ...iptables], ports: filter ? portRulesIn(filter.socket) : [] }
}

/** Whether a comment names an attachment: "network/container/interface", perhaps with a path after it, or upstream's. */
function namesOwner(comment: string): boolean {
  const [mark = ""] = comment.split(" ")
  return mark.split("/").length === 3 || comment.includes('name: "')
}

function ownerIn(comment: string): string {
  return comment.includes('name: "') ? comment : (comment.split(" ")[0] ?? "")
}
