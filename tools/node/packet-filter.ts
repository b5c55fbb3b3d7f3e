import { decodeLatin1 } from "../../pkg/engine/mod.ts"
import {
  type BaseChain,
  type FoundRule,
  isDormant,
  listBaseChains,
  listRules,
  listTableRules,
  listTables,
  type Netfilter,
  PacketFilter,
  type Table,
} from "../../pkg/nftables/mod.ts"

/** All rules of nf_tables, those that `iptables-nft` has made included. Chains of the older iptables are not among them. */
export interface FilterView {
  readonly bases: readonly BaseChain[]
  readonly rules: readonly FoundRule[]
  /** All tables, those without rules too. */
  readonly tables?: readonly Table[]
  /** Tables with `flags dormant`: their base chains are not among `bases`, since no packet comes through them. */
  readonly dormant?: readonly Table[]
}

/** Reads the whole rule set, like `nft list ruleset`; undefined on a kernel without nf_tables. Throws `EPERM`. */
export function readPacketFilter(): FilterView | undefined {
  using filter = PacketFilter.find()
  if (!filter) return undefined
  const { socket } = filter
  const tables = listTables(socket)
  const dormant = tables.filter((table) => isDormant(socket, table))
  const isAsleep = ({ table }: BaseChain) =>
    dormant.some(({ family, name }) => family === table.family && name === table.name)
  return {
    bases: listBaseChains(socket).filter((base) => !isAsleep(base)),
    rules: tables.flatMap((table) => listTableRules(socket, table)),
    tables,
    dormant,
  }
}

/**
 * Reads the base chains of a namespace, those of dormant tables left out, with the rules in them and not in what they jump to; undefined where
 * there are no tables, as in most containers, which takes one question. Throws `NetlinkError`, `ETIME` where the socket's budget is over.
 */
export function readBaseChains(socket: Netfilter): FilterView | undefined {
  if (listTables(socket).length === 0) return undefined
  const bases = listBaseChains(socket)
  const awake = bases.filter(({ table }) => !isDormant(socket, table))
  return { bases: awake, rules: awake.flatMap((base) => listRules(socket, base)) }
}

/** `enum nft_verdicts`, as they travel. */
const DROP = 0
const ACCEPT = 1

/** The verdict of a rule; undefined for a rule without one, or whose target is an extension. */
export function verdictOf({ expressions }: FoundRule): "accept" | "drop" | { jump: string } | undefined {
  for (const { name, data } of expressions) {
    if (name === "reject") return "drop"
    if (name !== "immediate" || data instanceof Uint8Array) continue
    const verdict = data.data?.verdict
    if (verdict === undefined) continue
    if (verdict.chain !== undefined) return { jump: verdict.chain }
    if (verdict.code === DROP) return "drop"
    if (verdict.code === ACCEPT) return "accept"
  }
  return undefined
}

/** Whether a rule matches every packet; it may have a counter. */
export function isUnconditional({ expressions }: FoundRule): boolean {
  return expressions.every(({ name }) => ["counter", "immediate", "reject", "log"].includes(name))
}

/** Whether a rule compares with one of these values, an interface's name or an address among them. */
export function comparesWith({ expressions }: FoundRule, values: readonly Uint8Array[]): boolean {
  return expressions.some(({ name, data }, at) => {
    if (name !== "cmp" || data instanceof Uint8Array) return false
    const compared = decodeLatin1(data.data?.value ?? new Uint8Array(0))
    // One byte may be the start of an address, but also a family: NFPROTO_IPV6 is 10.
    if (compared.length < 2 && expressions[at - 1]?.name !== "payload") return false
    return values.some((value) => {
      const sought = decodeLatin1(value)
      return compared.length > 0 && (compared.startsWith(sought) || sought.startsWith(compared))
    })
  })
}

/** The chains that packets of a hook may come through: base chains, and what their rules jump to. */
export function chainsAt(view: FilterView, base: BaseChain): string[] {
  const found = [base.name]
  const inTable = view.rules.filter(
    ({ chain: { table } }) => table.name === base.table.name && table.family === base.table.family,
  )
  for (const name of found) {
    for (const rule of inTable) {
      const verdict = rule.chain.name === name ? verdictOf(rule) : undefined
      if (typeof verdict === "object" && !found.includes(verdict.jump)) found.push(verdict.jump)
    }
  }
  return found
}
