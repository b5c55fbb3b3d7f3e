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

/** All rules of nf_tables, including those of `iptables-nft`. Does not include rules of legacy iptables. */
export interface FilterView {
  readonly bases: readonly BaseChain[]
  readonly rules: readonly FoundRule[]
  /** All tables, including those without rules. */
  readonly tables?: readonly Table[]
  /** Tables with `flags dormant`. No packet passes their base chains, so `bases` does not include them. */
  readonly dormant?: readonly Table[]
}

/** Reads the rule set, like `nft list ruleset`. Undefined on a kernel without nf_tables. Throws `EPERM`. */
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
 * Reads the base chains of a namespace with their own rules. Does not read dormant tables and chains that rules jump
 * to. Returns undefined after one request if no table exists, as in most containers. Throws `NetlinkError`, and `ETIME`
 * when the socket's budget is exhausted.
 */
export function readBaseChains(socket: Netfilter): FilterView | undefined {
  if (listTables(socket).length === 0) return undefined
  const bases = listBaseChains(socket)
  const awake = bases.filter(({ table }) => !isDormant(socket, table))
  return { bases: awake, rules: awake.flatMap((base) => listRules(socket, base)) }
}

/** `enum nft_verdicts`, as messages encode it. */
const DROP = 0
const ACCEPT = 1
const GOTO = -4 >>> 0

/** Returns a rule's verdict. Undefined if it has none, or if it is `return` or the target of an iptables extension. */
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
