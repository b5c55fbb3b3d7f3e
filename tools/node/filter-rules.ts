import { type PortRule, portRulesIn } from "../../meta/portmap/main.ts"
import { commentOf, findEverywhere } from "../../pkg/iptables/mod.ts"
import { listCommented, PacketFilter, tableFamily } from "../../pkg/nftables/mod.ts"
import { foreign } from "./foreign.ts"

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

/** Tables of either suite; in that of the reference suite's portmap a comment is the container alone. */
const OUR_TABLES = /^cni_/
const UPSTREAM_PORTS = "cni_hostport"
/** Chains of containers that either suite makes with iptables, and what leads to them. */
export const containerChains = { chains: /^CNI-/, parents: ["POSTROUTING", "CNI-HOSTPORT-DNAT"] }

/** The rules of both packet filters that name an attachment. Throws `EPERM` without CAP_NET_ADMIN. */
export function readOwnedRules(): FilterRules {
  using filter = PacketFilter.find()
  const isOurs = ({ name }: { name: string }) => OUR_TABLES.test(name)
  const { rules, elements } = filter ? listCommented(filter.socket, () => true, isOurs) : { rules: [], elements: [] }
  const native = [...rules, ...elements].flatMap(({ table, name, comment }): OwnedRule[] => {
    const owner = ownerIn(table.name, comment)
    return owner === undefined ? [] : [{ place: `${table.family} ${table.name} ${name}`, backend: "nftables", owner }]
  })
  const iptables = findEverywhere(filter?.socket, "nat", containerChains).flatMap(({ family, rules }) =>
    rules.flatMap((rule): OwnedRule[] => {
      const owner = ownerIn("nat", commentOf(rule) ?? "")
      if (owner === undefined) return []
      return [{ place: `${tableFamily[family]} nat ${rule.chain}`, backend: "iptables", owner }]
    }),
  )
  return { owned: [...native, ...iptables], ports: filter ? portRulesIn(filter.socket) : [] }
}

/**
 * The owner of a rule: "network/container/interface", or the reference suite's shorter name; undefined for
 * a comment that names no attachment.
 */
function ownerIn(table: string, text: string): string | undefined {
  const comment = foreign(text)
  if (table === UPSTREAM_PORTS) return `id: ${JSON.stringify(comment)}`
  const [, network, ifName, containerId] =
    /^[0-9a-f]{16}-[0-9a-f]{16}, net: (.*), if: (.*), id: (.*)$/.exec(comment) ?? []
  if (network !== undefined) return `${network}/${containerId}/${ifName}`
  if (comment.includes('name: "')) return comment
  const [mark = ""] = comment.split(" ") // a path may follow it
  return mark.split("/").length === 3 ? mark : undefined
}
