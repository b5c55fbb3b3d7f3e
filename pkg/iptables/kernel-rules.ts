import { decodeUtf8, encodeUtf8 } from "../engine/mod.ts"
import type { Infer, NetlinkSocket } from "../netlink/mod.ts"
import {
  type Chain,
  type Expression,
  extensionAttributes,
  type FoundRule,
  flush,
  hasChain,
  listChains,
  listRules,
  NFT_CMP,
  type Operation,
  PayloadBase,
  readVerdict,
  remove,
  tableFamily,
  type UnknownExpression,
} from "../nftables/mod.ts"
import { AF_INET, AF_INET6, type Family, formatCidr } from "../types/mod.ts"
import type { Content, Removal, Rule, TableName } from "./rule.ts"

/** The options of iptables, by the number of the field that they compare. */
type Options = Readonly<Record<number, string>>

/** The size of an address, and the offsets of the addresses in the packet header, by family. */
const ADDRESSES: Readonly<Record<Family, { size: number; options: Options }>> = {
  [AF_INET]: { size: 4, options: { 12: "-s", 16: "-d" } },
  [AF_INET6]: { size: 16, options: { 8: "-s", 24: "-d" } },
}
/** `NFT_META_IIFNAME` and `NFT_META_OIFNAME` */
const INTERFACES: Options = { 6: "-i", 7: "-o" }

/** A rule of `iptables-nft` with its handle in the kernel. */
export interface KernelRule extends Rule {
  handle: bigint
}

/** A search for chains and the rules that jump to them. */
export interface Search {
  /** The names of the chains, which take one request each, or a pattern of names, which takes a list of all chains. */
  chains: readonly string[] | RegExp
  /** The chains whose rules may jump to them. */
  parents: readonly string[]
}

/**
 * Finds the chains of a search in nf_tables, in which `iptables-nft` stores its rules, without a program. Returns the
 * existing chains, all their rules, and the rules of `parents` that jump to them. Throws `NetlinkError`.
 */
export function findInKernel(
  socket: NetlinkSocket,
  family: Family,
  name: TableName,
  { chains, parents }: Search,
): Content<KernelRule> {
  const table = { family: tableFamily[family], name }
  const candidates = chains instanceof RegExp ? listChains(socket, table) : chains.map((name) => ({ table, name }))
  const isThere = (chain: Chain) => (chains instanceof RegExp ? chains.test(chain.name) : hasChain(socket, chain))
  const found = candidates.filter(isThere)
  if (found.length === 0) return { chains: [], rules: [] }
  const names = found.map((chain) => chain.name)
  const leading = parents.flatMap((parent) => listKernelRules(socket, { family, table: name, chain: parent }, names))
  return {
    chains: names,
    rules: [...leading, ...names.flatMap((chain) => listKernelRules(socket, { family, table: name, chain }))],
  }
}

/** Returns a chain's rules, with `targets` only those that contain one of these names; none without the chain. */
export function listKernelRules(
  socket: NetlinkSocket,
  { family, table, chain }: { family: Family; table: TableName; chain: string },
  targets?: readonly string[],
): KernelRule[] {
  const needles = targets?.map((target) => encodeUtf8(`${target}\0`))
  const rules = listRules(socket, { table: { family: tableFamily[family], name: table }, name: chain }, needles)
  return rules.map((rule) => ({ chain, words: wordsOf(family, rule), handle: rule.handle }))
}

/** Returns the operations of nf_tables that make a removal. */
export function kernelOperations(family: Family, name: TableName, { rules, chains }: Removal<KernelRule>): Operation[] {
  const table = { family: tableFamily[family], name }
  return [
    ...rules.map(({ chain, handle }) => remove.rule({ chain: { table, name: chain }, handle })),
    ...chains.flatMap((name) => [flush.chain({ table, name }), remove.chain({ table, name })]),
  ]
}

/**
 * Returns the words of a rule of `iptables-nft`, as `iptables-save` prints them: addresses, interfaces, comments and
 * verdicts. All other matches and targets are given by name, without their options. Never throws: an unknown expression
 * is given by its name.
 */
export function wordsOf(family: Family, rule: Pick<FoundRule, "expressions" | "comment">): string[] {
  const words: string[] = []
  let loaded = NOTHING
  for (const expression of rule.expressions) {
    if (isKnown(expression, "payload")) loaded = addressLoaded(family, expression.data)
    else if (isKnown(expression, "meta") && INTERFACES[expression.data.key ?? -1])
      loaded = { option: INTERFACES[expression.data.key ?? -1], bits: 0 }
    else if (isKnown(expression, "bitwise")) loaded = { ...loaded, bits: bitsOf(expression.data.mask?.value) }
    else if (isKnown(expression, "cmp")) {
      words.push(...compared(family, loaded, expression.data))
      loaded = NOTHING
    } else if (isKnown(expression, "immediate")) words.push(...verdictWords(expression.data.data ?? {}))
    else words.push(...extensionWords(expression))
  }
  return rule.comment === undefined ? words : [...words, "-m", "comment", "--comment", rule.comment]
}

type Known<N extends Expression["name"]> = Extract<Expression, { name: N }>

function isKnown<N extends Expression["name"]>(found: Expression | UnknownExpression, name: N): found is Known<N> {
  return found.name === name && !(found.data instanceof Uint8Array)
}

/** The address or interface that the next comparison reads: its option, and the number of bits to compare. */
interface Loaded {
  option: string | undefined
  bits: number
}

const NOTHING: Loaded = { option: undefined, bits: 0 }

function addressLoaded(family: Family, { base, offset = 0, length = 0 }: Known<"payload">["data"]): Loaded {
  const option = base === PayloadBase.Network ? ADDRESSES[family].options[offset] : undefined
  return { option, bits: 8 * length }
}

/** Formats the comparison of the loaded address, of which the first bytes are compared, or all bytes under a mask. */
function compared(family: Family, { option, bits }: Loaded, data: Known<"cmp">["data"]) {
  const value = data.data?.value
  if (option === undefined || value === undefined) return ["cmp"]
  const inverted = data.op === NFT_CMP["!="] ? ["!"] : []
  if (option === "-i" || option === "-o") {
    return [...inverted, option, value.includes(0) ? readText(value) : `${readText(value)}+`]
  }
  const ip = new Uint8Array(ADDRESSES[family].size)
  ip.set(value.subarray(0, ip.length))
  return [...inverted, option, formatCidr({ ip, prefix: bits })]
}

function bitsOf(mask: Uint8Array = new Uint8Array(0)): number {
  return mask.reduce((sum, byte) => sum + byte.toString(2).replaceAll("0", "").length, 0)
}

function verdictWords(data: Parameters<typeof readVerdict>[0]): string[] {
  const verdict = readVerdict(data)
  if (verdict === undefined) return ["-j", String(data.verdict?.code)]
  if (typeof verdict === "string") return ["-j", verdict.toUpperCase()]
  return "goto" in verdict ? ["-g", verdict.goto] : ["-j", verdict.jump]
}

function extensionWords({ name, data }: Expression | UnknownExpression): string[] {
  if (name === "counter") return [] // every rule of iptables has a counter
  if (name === "masq") return ["-j", "MASQUERADE"]
  if (!(data instanceof Uint8Array)) return [name]
  const found = readExtension(data)
  if (name === "target") return ["-j", found.name ?? name]
  if (name !== "match") return [name]
  if (found.name !== "comment") return ["-m", found.name ?? name]
  return ["-m", "comment", "--comment", readText(found.info)]
}

function readExtension(data: Uint8Array): Infer<typeof extensionAttributes> {
  try {
    return extensionAttributes.decode(data)
  } catch {
    return {}
  }
}

/** Returns the text in struct xt_comment_info, which ends with a NUL. */
function readText(info: Uint8Array = new Uint8Array(0)): string {
  const end = info.indexOf(0)
  return decodeUtf8(end === -1 ? info : info.subarray(0, end))
}
