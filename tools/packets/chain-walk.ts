import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { type BaseChain, type Chain, extensionAttributes, type FoundRule, type Table } from "../../pkg/nftables/mod.ts"
import type { FilterView } from "../node/mod.ts"
import type { Action, Mapping } from "./actions.ts"
import type { Choices } from "./choices.ts"
import { evaluate } from "./evaluate.ts"
import type { Kernel } from "./kernel.ts"
import { agreeingPacket, type Packet } from "./packet.ts"
import type { Hop } from "./packet-path.ts"

/** The rules, kernel state and choices with which a packet is evaluated. */
export interface FilterQuestions {
  readonly bases: FilterView["bases"]
  /** Returns the rules of a chain in order, or undefined if they were not read. */
  readonly rulesOf: (chain: Pick<Chain, "table" | "name">) => readonly FoundRule[] | undefined
  readonly kernel: Kernel
  readonly choices: Choices
}

/** A rule or policy that decided about the packet, or a rule that may have decided. */
export type Note = Omit<Hop, "where">

/** Returns a function that finds the rules of a chain in order. Groups the node's rules by chain only once. */
export function indexRules({ rules }: Pick<FilterView, "rules">): FilterQuestions["rulesOf"] {
  const byChain = new Map<string, FoundRule[]>()
  for (const rule of rules) byChain.getOrInsert(placeOf(rule.chain), []).push(rule)
  return (chain) => byChain.get(placeOf(chain)) ?? []
}

/** A maximum depth of jumps, above the kernel's limit. */
const DEPTH = 16

/** How a chain ends: with a decision, or after its last rule, so that the calling chain continues. */
type ChainEnd = "accept" | "drop" | "end"

/** The evaluation of one packet by the chains of a table. */
export class ChainWalk {
  packet: Packet
  readonly notes: Note[] = []
  /** A description of each rule that may accept the packet, because it depends on unknown facts. */
  readonly perhapsAccepting: string[] = []
  decidedBy: string | undefined
  decidingRule: FoundRule | undefined
  mapped: { mapping: Mapping; rule: string; by: FoundRule } | undefined
  readonly #questions: FilterQuestions
  readonly #table: Table

  constructor(questions: FilterQuestions, table: Table, packet: Packet) {
    this.#questions = questions
    this.#table = table
    this.packet = packet
  }

  /** Returns a base chain's decision or policy. "perhaps": drops the packet unless an earlier rule accepts it. */
  base({ name, policy }: BaseChain): "accept" | "drop" | "perhaps" {
    const end = this.#chain(name, 0)
    const verdict = end === "end" ? policy : end
    return verdict === "drop" && this.perhapsAccepting.length > 0 ? "perhaps" : verdict
  }

  #chain(name: string, depth: number): ChainEnd {
    if (depth > DEPTH) return "end"
    const left: string[] = [] // the unknown facts on which rules with `return` depend
    const rules = this.#questions.rulesOf({ table: this.#table, name })
    if (rules === undefined) this.perhapsAccepting.push(`${placeOf({ table: this.#table, name })} was not read`)
    for (const rule of rules ?? []) {
      const { kernel, choices } = this.#questions
      const { matches, action, packet, unknown, notJudged } = evaluate(rule, this.packet, kernel, choices)
      for (const what of matches === "no" ? [] : notJudged)
        this.notes.push({ what: `not judged: ${what}, by ${ruleName(rule)}`, passes: "perhaps" })
      this.packet = left.length > 0 ? agreeingPacket(this.packet, packet) : packet
      if (matches === "no" || action === undefined) continue
      if (matches === "perhaps" || left.length > 0) {
        const open = [...new Set([...left, ...unknown])]
        if (action.kind === "return") left.push(...open)
        else this.#perhaps(rule, action, open, depth)
        continue
      }
      const end = this.#act(rule, action, depth)
      if (end !== undefined) return end
    }
    return "end"
  }

  /** Applies a matching rule. Returns undefined to continue with the next rule. */
  #act(rule: FoundRule, action: Action, depth: number): ChainEnd | undefined {
    switch (action.kind) {
      case "accept":
      case "drop":
        this.decidedBy = ruleName(rule)
        this.decidingRule = rule
        return action.kind
      case "return":
        return "end"
      case "jump": {
        const end = this.#chain(action.chain, depth + 1)
        return end === "end" ? undefined : end
      }
      case "goto": // a goto also ends this chain
        return this.#chain(action.chain, depth + 1)
      case "other":
        this.notes.push({
          what: `${ruleName(rule)} passes the packet to ${action.what}, which trace does not follow`,
          passes: "perhaps",
        })
        return "accept"
      default:
        return this.#map(rule, action)
    }
  }

  #map(rule: FoundRule, mapping: Mapping): ChainEnd {
    this.mapped = { mapping, rule: ruleName(rule), by: rule }
    this.packet = mappedPacket(this.packet, mapping, this.#questions.kernel)
    if (mapping.isOpen)
      this.notes.push({ what: `${ruleName(rule)} chooses one of several addresses or ports`, passes: "perhaps" })
    return "accept"
  }

  /** Records the possible effect of a rule that depends on unknown facts. */
  #perhaps(rule: FoundRule, action: Action, unknown: readonly string[], depth: number): void {
    const because = `(not known here: ${unknown.join(", ")})`
    if (action.kind === "accept") return void this.perhapsAccepting.push(`${ruleName(rule)} ${because}`)
    const may = (what: string) =>
      this.notes.push({ what: `${ruleName(rule)} may ${what} ${because}`, passes: "perhaps" })
    if (action.kind === "jump" || action.kind === "goto") this.#perhapsJump(rule, action.chain, because, may, depth)
    else if (action.kind === "drop") may("drop it")
    else if (action.kind === "other") may(`hand it to ${action.what}`)
    else if (action.kind !== "return") may(`change its ${action.kind}`)
  }

  /** Evaluates the chain to which a rule may jump. Ignores a chain without effect. */
  #perhapsJump(rule: FoundRule, chain: string, because: string, may: (what: string) => void, depth: number): void {
    const walk = new ChainWalk(this.#questions, this.#table, this.packet)
    const end = walk.#chain(chain, depth + 1)
    this.packet = agreeingPacket(this.packet, walk.packet)
    this.notes.push(...walk.notes)
    this.perhapsAccepting.push(...walk.perhapsAccepting)
    if (end === "drop") may(`lead to ${walk.decidedBy}, which drops it`)
    else if (walk.mapped) may(`lead to ${walk.mapped.rule}, which changes its ${walk.mapped.mapping.kind}`)
    else if (end === "accept") this.perhapsAccepting.push(`${ruleName(rule)} ${because}`)
  }
}

/** Describes a chain, such as "chain ip nat POSTROUTING". */
export function placeOf({ table, name }: Pick<Chain, "table" | "name">): string {
  return `chain ${table.family} ${table.name} ${name}`
}

/** Describes a rule, such as "rule 12 of chain ip nat KUBE-SEP-1 ("shop/db")". */
function ruleName(rule: FoundRule): string {
  const comment = rule.comment ?? commentOf(rule)
  return `rule ${rule.handle} of ${placeOf(rule.chain)}${comment === undefined ? "" : ` ("${comment}")`}`
}

/** Returns the comment of iptables' `-m comment`: struct xt_comment_info. */
function commentOf({ expressions }: FoundRule): string | undefined {
  for (const { name, data } of expressions) {
    if (name !== "match" || !(data instanceof Uint8Array)) continue
    const { name: extension, info = new Uint8Array(0) } = extensionAttributes.decode(data)
    if (extension === "comment") return decodeUtf8(info.subarray(0, Math.max(0, info.indexOf(0))))
  }
  return undefined
}

/** Returns the packet with the addresses to which a rule changes it. */
function mappedPacket(packet: Packet, { kind, ip, port, from }: Mapping, kernel: Kernel): Packet {
  const given = from === "rule" ? ip : kernel.addressOn(from === "output" ? packet.output : packet.input, packet.source)
  if (kind === "source") return { ...packet, source: given ?? packet.source, isSourceMapped: true }
  return {
    ...packet,
    destination: given ?? packet.destination,
    destinationPort: port ?? packet.destinationPort,
    isDestinationMapped: true,
  }
}
