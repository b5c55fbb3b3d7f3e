import { type PortRule, portRulesIn } from "../../meta/portmap/main.ts"
import { commentOf, findEverywhere } from "../../pkg/iptables/mod.ts"
import { listCommented, PacketFilter, tableFamily } from "../../pkg/nftables/mod.ts"
import { foreign } from "./foreign.ts"

/** A rule, or an element of a set, that names an attachment. */
export interface OwnedRule {
  /** The family, table, and chain or set: "ip cni_masquerade containers", "ip nat POSTROUTING". */
  readonly place: string
  readonly backend: "nftables" | "iptables"
  /** "network/container/interface", or the comment of the reference suite. */
  readonly owner: string
}

export interface FilterRules {
  readonly owned: readonly OwnedRule[]
  readonly ports: readonly PortRule[]
}

/** Names of tables of both suites. Comments in the table of the reference suite's portmap name only the container. */
const OUR_TABLES = /^cni_/
const UPSTREAM_PORTS = "cni_hostport"
/** iptables chains of containers, for both suites, and the chains that jump to them. */
export const containerChains = { chains: /^CNI-/, parents: ["POSTROUTING", "CNI-HOSTPORT-DNAT"] }

/** Reads the rules of both packet filters that name an attachment. Throws `EPERM` without CAP_NET_ADMIN. */
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
 * Returns the owner in a rule's comment: "network/container/interface", or the reference suite's shorter form. Returns
 * undefined for a comment that names no attachment.
 */
function ownerIn(table: string, text: string): string | undefined {
  const comment = foreign(text)
  if (table === UPSTREAM_PORTS) return `id: ${JSON.stringify(comment)}`
  const [, network, ifName, containerId] =
    /^[0-9a-f]{16}-[0-9a-f]{16}, net: (.*), if: (.*), id: (.*)$/.exec(comment) ?? []
  if (network !== undefined) return `${network}/${containerId}/${ifName}`
  if (comment.includes('name: "')) return comment
  const blank = comment.indexOf(" ") // a path may follow the owner
  const mark = blank === -1 ? comment : comment.slice(0, blank)
  const last = mark.lastIndexOf("/")
  const first = mark.indexOf("/")
  return first < last && mark.indexOf("/", first + 1) === last ? mark : undefined
}
