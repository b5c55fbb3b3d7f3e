import { encodeUtf8 } from "../engine/mod.ts"
import type { NetlinkSocket } from "../netlink/mod.ts"
import { type Chain, flush, hasChain, listChains, listRules, type Operation, remove } from "../nftables/mod.ts"
import { wordsOf } from "./kernel-words.ts"
import type { Content, Family, Removal, Rule, TableName } from "./rule.ts"

/** A rule of `iptables-nft` in the kernel. */
export interface KernelRule extends Rule {
  handle: bigint
}

/** What to look for: some chains, and the rules that lead to them. */
export interface Search {
  /** Their names, which costs one question each, or a pattern of names, which costs a list of all. */
  chains: readonly string[] | RegExp
  /** The chains that may have jumps to them. */
  parents: readonly string[]
}

/**
 * Finds the chains of a search among the rules of `iptables-nft`, which are nf_tables' own: needs no program. Answers the
 * chains that are there, all their rules, and the rules of `parents` that jump to them. Throws `NetlinkError`.
 */
export function findInKernel(
  socket: NetlinkSocket,
  family: Family,
  name: TableName,
  { chains, parents }: Search,
): Content<KernelRule> {
  const table = { family, name }
  const candidates = chains instanceof RegExp ? listChains(socket, table) : chains.map((name) => ({ table, name }))
  const isWanted = (chain: Chain) => (chains instanceof RegExp ? chains.test(chain.name) : hasChain(socket, chain))
  const found = candidates.filter(isWanted)
  if (found.length === 0) return { chains: [], rules: [] }
  const names = found.map((chain) => chain.name)
  const needles = names.map((name) => encodeUtf8(`${name}\0`))
  const rules = [
    ...parents.flatMap((parent) => listRules(socket, { table, name: parent }, needles)),
    ...found.flatMap((chain) => listRules(socket, chain)),
  ]
  return {
    chains: names,
    rules: rules.map((rule) => ({ chain: rule.chain.name, words: wordsOf(family, rule), handle: rule.handle })),
  }
}

/** A removal as a transaction of nf_tables. */
export function kernelOperations(family: Family, name: TableName, { rules, chains }: Removal<KernelRule>): Operation[] {
  const table = { family, name }
  return [
    ...rules.map(({ chain, handle }) => remove.rule({ chain: { table, name: chain }, handle })),
    ...chains.flatMap((name) => [flush.chain({ table, name }), remove.chain({ table, name })]),
  ]
}
