import {
  type BaseChain,
  type FoundRule,
  isDormant,
  listBaseChains,
  listRules,
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
    rules: tables.flatMap((table) => listRules(socket, { table })),
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
const GOTO = -4 >>> 0

/** The verdict of a rule; undefined for a rule without one, and for one that returns or whose target is an extension. */
export function verdictOf({
  expressions,
}: FoundRule): "accept" | "drop" | { jump: string; isGoto: boolean } | undefined {
  for (const { name, data } of expressions) {
    if (name === "reject") return "drop"
    if (name !== "immediate" || data instanceof Uint8Array) continue
    const verdict = data.data?.verdict
    if (verdict === undefined) continue
    if (verdict.chain !== undefined) return { jump: verdict.chain, isGoto: verdict.code === GOTO }
    if (verdict.code === DROP) return "drop"
    if (verdict.code === ACCEPT) return "accept"
  }
  return undefined
}
