import { decodeLatin1 } from "../../pkg/engine/mod.ts"
import { u32 } from "../../pkg/netlink/mod.ts"
import { extensionAttributes, NFT_CMP } from "../../pkg/nftables/mod.ts"
import { type FilterView, verdictOf } from "../node/mod.ts"
import { type Command, sh } from "./remedy.ts"

export type Base = FilterView["bases"][number]
export type Rule = FilterView["rules"][number]

/** A base chain that lets nothing pass by an interface, by a rule of it or by its policy. */
export interface Closed {
  readonly base: Base
  readonly rule?: Rule
}

/** The packets that are asked about: all that come in by an interface, or all that go out by it. */
export interface Way {
  readonly direction: "in" | "out"
  readonly device: string
  readonly index: number | undefined
  /** Only packets that begin a connection. */
  readonly isNew?: boolean
}

/** The rules of a table's chain in order; undefined where they were not read. */
export type RulesOf = (table: Base["table"], chain: string) => readonly Rule[] | undefined

/** Finds the rules of a chain among all rules of the host, which are sorted once. A chain without rules has none. */
export function indexed({ rules }: Pick<FilterView, "rules">): RulesOf {
  const keyOf = ({ family, name }: Base["table"], chain: string) => `${family} ${name} ${chain}`
  const byChain = Map.groupBy(rules, ({ chain }) => keyOf(chain.table, chain.name))
  return (table, chain) => byChain.get(keyOf(table, chain)) ?? []
}

/**
 * Returns what drops every packet of a way in a base chain: a rule that asks for no more than the way's interface, or the policy. Undefined where
 * any packet may pass: whether a rule that asks for more matches is not known, and so an accept of one counts and a drop of one does not.
 */
export function closedBy(base: Base, way: Way, rulesOf: RulesOf): Closed | undefined {
  const end = endOf(base.name, base.table, way, rulesOf, new Map())
  if (end === "passes") return undefined
  if (typeof end === "object") return { base, rule: end }
  return base.policy === "drop" ? { base } : undefined
}

/** The rule that drops all, "end" where all packets or those that are left come to the chain's end, or "passes" where one may not come there. */
type End = Rule | "end" | "passes"

function endOf(chain: string, table: Base["table"], way: Way, rulesOf: RulesOf, known: Map<string, End>): End {
  const found = known.get(chain)
  if (found !== undefined) return found
  const rules = rulesOf(table, chain)
  const end = rules === undefined ? "passes" : endOfRules(rules, way, (name) => endOf(name, table, way, rulesOf, known))
  known.set(chain, end)
  return end
}

function endOfRules(rules: readonly Rule[], way: Way, endOfChain: (chain: string) => End): End {
  for (const rule of rules) {
    const concerned = concerns(rule, way)
    if (concerned === "none" || isSilent(rule)) continue
    if (isDropping(rule)) {
      if (concerned === "all") return rule
      continue
    }
    const verdict = verdictOf(rule)
    if (typeof verdict !== "object") return "passes"
    const end = endOfChain(verdict.jump)
    if (end === "passes" || (verdict.isGoto && end === "end")) return "passes"
    if (typeof end === "object" && concerned === "all") return end
  }
  return "end"
}

/** `enum nft_meta_keys`, <linux/netfilter/nf_tables.h>: iif and iifname, oif and oifname. */
const INTERFACE_KEYS: Readonly<Record<number, { direction: Way["direction"]; isIndex: boolean }>> = {
  4: { direction: "in", isIndex: true },
  5: { direction: "out", isIndex: true },
  6: { direction: "in", isIndex: false },
  7: { direction: "out", isIndex: false },
}
/** Expressions without an effect on the packet, and targets of iptables without one. */
const WITHOUT_EFFECT = new Set(["counter", "log", "last"])
const TARGETS_WITHOUT_EFFECT = new Set(["LOG", "NFLOG", "TRACE"])
/** Expressions that ask nothing of a packet. All others do, known or not. */
const ASKING_NOTHING = new Set([...WITHOUT_EFFECT, "immediate", "reject", "target"])
/** Expressions that ask, and do nothing with a packet. */
const ASKING = new Set(["meta", "payload", "cmp", "bitwise", "ct", "match", "limit", "range", "byteorder", "lookup"])

/** Whether a rule is about all packets of a way, none of them, or some: the last where it asks for more than the interface. */
function concerns({ expressions }: Rule, way: Way): "all" | "some" | "none" {
  let concerned: "all" | "some" = "all"
  const asked = expressions.filter((each) => !ASKING_NOTHING.has(each.name) && !isComment(each))
  for (let at = 0; at < asked.length; at++) {
    const [load, compared] = [asked[at], asked[at + 1]]
    const about = load?.name === "meta" && !(load.data instanceof Uint8Array) && INTERFACE_KEYS[load.data.key ?? 0]
    if (about && about.direction === way.direction && compared?.name === "cmp") {
      const isIt = isInterface(compared.data, about.isIndex, way)
      if (isIt === false) return "none"
      if (isIt === undefined) concerned = "some"
      at++
    } else if (way.isNew && asksForState(asked.slice(at, at + 3))) return "none"
    else concerned = "some"
  }
  return concerned
}

/** Whether a comparison holds for the way's interface. A name without a zero is the beginning of one. */
function isInterface(compared: Rule["expressions"][number]["data"], isIndex: boolean, way: Way): boolean | undefined {
  if (compared instanceof Uint8Array || !("data" in compared)) return undefined
  const value = compared.data?.value ?? new Uint8Array(0)
  const op = ("op" in compared ? compared.op : undefined) ?? NFT_CMP["=="]
  const [name = "", ...rest] = decodeLatin1(value).split("\0")
  const isIt = isIndex
    ? u32.decode(value) === way.index
    : rest.length > 0
      ? name === way.device
      : way.device.startsWith(name)
  if (op === NFT_CMP["=="]) return isIt
  return op === NFT_CMP["!="] ? !isIt : undefined
}

/** `NFT_CT_STATE`; the bits of packets that begin a connection, or belong to none: invalid is 1, new 8, untracked 64. */
const CT_STATE = 0
const NOT_ESTABLISHED = 1 | 8 | 64

/** Whether expressions ask for a state that no packet which begins a connection has: `ct state established,related`. */
function asksForState([load, masked, compared]: Rule["expressions"]): boolean {
  if (load?.name === "match" && load.data instanceof Uint8Array) return asksForStateByIptables(load.data)
  if (load?.name !== "ct" || load.data instanceof Uint8Array || load.data.key !== CT_STATE) return false
  if (masked?.name !== "bitwise" || masked.data instanceof Uint8Array) return false
  if (compared?.name !== "cmp" || compared.data instanceof Uint8Array || compared.data.op !== NFT_CMP["!="])
    return false
  const mask = masked.data.mask?.value
  return mask?.length === 4 && (u32.decode(mask) & NOT_ESTABLISHED) === 0
}

/** struct xt_conntrack_mtinfo3: the flags of what is asked, those of what is inverted, and the states; XT_CONNTRACK_STATE is 1. */
function asksForStateByIptables(data: Uint8Array): boolean {
  const { name, revision = 0, info = new Uint8Array(0) } = extensionAttributes.decode(data)
  if (name !== "conntrack" || revision !== 3 || info.length < 152) return false
  const view = new DataView(info.buffer, info.byteOffset, info.length)
  const [flags, inverted, states] = [146, 148, 150].map((at) => view.getUint16(at, true)) as [number, number, number]
  return (flags & 1) !== 0 && (inverted & 1) === 0 && (states & (NOT_ESTABLISHED | 256)) === 0
}

/** A comment of iptables is a match that holds for every packet. */
function isComment({ name, data }: Rule["expressions"][number]): boolean {
  return name === "match" && data instanceof Uint8Array && extensionAttributes.decode(data).name === "comment"
}

function isDropping(rule: Rule): boolean {
  return verdictOf(rule) === "drop" || targetsOf(rule).some((name) => name === "REJECT" || name === "DROP")
}

function isSilent(rule: Rule): boolean {
  const isHarmless = ({ name, data }: Rule["expressions"][number]) =>
    WITHOUT_EFFECT.has(name) || name === "target" || (ASKING.has(name) && !isVerdictMap(name, data))
  const harmlessTargets = targetsOf(rule).every((name) => TARGETS_WITHOUT_EFFECT.has(name))
  return verdictOf(rule) === undefined && harmlessTargets && rule.expressions.every(isHarmless)
}

/** `vmap`: the set has the verdicts, `NFT_REG_VERDICT` takes them. */
function isVerdictMap(name: string, data: Rule["expressions"][number]["data"]): boolean {
  return name === "lookup" && !(data instanceof Uint8Array) && "dreg" in data && data.dreg === 0
}

/** The targets of iptables that a rule has. */
function targetsOf({ expressions }: Rule): string[] {
  return expressions.flatMap(({ name, data }) =>
    name === "target" && data instanceof Uint8Array ? (extensionAttributes.decode(data).name ?? "") : [],
  )
}

/** The command that shows a chain with the handles of its rules. */
export function shownChain({ table, name }: Pick<Base, "table" | "name">): Command {
  return sh`nft -a list chain ${[table.family, table.name, name]}`
}
