import {
  type BaseChain,
  type FoundRule,
  findElements,
  isIntervalSet,
  PacketFilter,
  type Table,
} from "../../pkg/nftables/mod.ts"
import { AF_INET, familyOf } from "../../pkg/types/mod.ts"
import type { FilterView } from "../node/mod.ts"
import { evaluate, type HasElement, type Packet } from "./evaluate.ts"

/** What the rules at one hook do with a packet. */
export interface HookResult {
  readonly verdict: "accept" | "drop"
  /** The rule or policy that decided, and rules that may have decided, as sentences. */
  readonly notes: readonly string[]
  readonly isMasqueraded: boolean
  /** Rules that change the packet in a way that is not followed. */
  readonly isUnclear: boolean
}

/** Sends a packet through the base chains of a hook in the order of their priorities, as the kernel does. */
export function passHook(view: FilterView, hook: string, packet: Packet): HookResult {
  const families = familyOf(packet.source) === AF_INET ? ["ip", "inet"] : ["ip6", "inet"]
  const bases = view.bases
    .filter((base) => base.hook === hook && families.includes(base.table.family))
    .sort((a, b) => a.priority - b.priority)
  const notes: string[] = []
  let isMasqueraded = false
  let isUnclear = false
  for (const base of bases) {
    const walk = new Walk(view, base.table, packet)
    const decision = walk.chain(base.name, 0) ?? (base.policy === "drop" ? "drop" : undefined)
    notes.push(...walk.notes)
    isMasqueraded ||= walk.isMasqueraded
    isUnclear ||= walk.isUnclear
    // What may accept makes no difference where a packet is accepted all the same.
    if (decision === "drop" || base.type !== "filter") {
      notes.push(...walk.perhapsAccepting)
      isUnclear ||= walk.perhapsAccepting.length > 0
    }
    if (decision !== "drop") continue
    if (walk.decidedBy === undefined) notes.push(`policy drop of ${placeOf(base)}`)
    else notes.push(`dropped by ${walk.decidedBy}`)
    return { verdict: "drop", notes, isMasqueraded, isUnclear }
  }
  return { verdict: "accept", notes, isMasqueraded, isUnclear }
}

function placeOf({ table, name }: Pick<BaseChain, "table" | "name">): string {
  return `chain ${table.family} ${table.name} ${name}`
}

function ruleName({ chain, handle, comment }: FoundRule): string {
  return `rule ${handle} of ${placeOf(chain)}${comment === undefined ? "" : ` ("${comment}")`}`
}

/** More jumps than the kernel allows. */
const DEPTH = 16

/** One packet's way through the chains of a table. */
class Walk {
  readonly notes: string[] = []
  /** Rules that accept, or do not. */
  readonly perhapsAccepting: string[] = []
  decidedBy: string | undefined
  isMasqueraded = false
  isUnclear = false
  readonly #view: FilterView
  readonly #table: Table
  readonly #packet: Packet

  constructor(view: FilterView, table: Table, packet: Packet) {
    this.#view = view
    this.#table = table
    this.#packet = packet
  }

  /** What a chain decides; undefined when a packet comes to its end. */
  chain(name: string, depth: number): "accept" | "drop" | undefined {
    if (depth > DEPTH) return undefined
    const rules = this.#view.rules.filter(
      ({ chain }) =>
        chain.name === name && chain.table.name === this.#table.name && chain.table.family === this.#table.family,
    )
    for (const rule of rules) {
      const { matches, verdict } = evaluate(rule, this.#packet, hasElementIn(this.#table))
      if (matches === "no" || verdict === undefined) continue
      if (matches === "perhaps") {
        if (verdict === "return") continue
        const what = typeof verdict === "object" ? `jump to ${verdict.jump}` : verdict
        const note = `${ruleName(rule)} may ${what}: it looks at more than is known here`
        this.isUnclear ||= verdict !== "accept"
        if (verdict === "accept") this.perhapsAccepting.push(note)
        else this.notes.push(note)
        continue
      }
      if (verdict === "return") return undefined
      if (verdict === "masquerade") {
        this.isMasqueraded = true
        this.notes.push(`masqueraded by ${ruleName(rule)}`)
        return "accept"
      }
      if (verdict === "nat") {
        this.isUnclear = true
        this.notes.push(`its address is changed by ${ruleName(rule)}`)
        return "accept"
      }
      if (typeof verdict === "object") {
        const decided = this.chain(verdict.jump, depth + 1)
        if (decided !== undefined) return decided
        continue
      }
      this.decidedBy = ruleName(rule)
      return verdict
    }
    return undefined
  }
}

/** Looks into the sets of a table; whether a range has a key is not told here. */
function hasElementIn(table: Table): HasElement {
  return (name, key) => {
    using filter = PacketFilter.find()
    if (!filter || isIntervalSet(filter.socket, table, name) !== false) return undefined
    const raw = { name: "raw", id: 0, size: key.length, byteOrder: 0, print: String } as const
    const found = findElements(filter.socket, { table, name, key: [raw] })
    return found?.elements.some(({ key: [value] }) => value?.every((byte, at) => byte === key[at]) === true)
  }
}
