import { sha256 } from "../../../pkg/engine/mod.ts"
import { type Chain, type Operation, printTransaction } from "../../../pkg/nftables/mod.ts"
import { isCniError } from "../../../pkg/types/mod.ts"
import type { Mapping } from "../mapping.ts"
import { keyOf } from "./elements.ts"
import type { Layout } from "./layout.ts"
import { runNft } from "./program.ts"
import type { Wanted } from "./wanted.ts"

/** Each lost race means that somebody else has changed the table. */
const ATTEMPTS = 5

/**
 * Makes the changes that `plan` decides on, and the conditions', in one transaction. Nobody but the program `nft` knows its
 * language, so it is run, for these attachments only. Throws `CniError`, and then nothing has changed.
 */
export function addConditional(wanted: readonly Wanted[], plan: () => readonly Operation[]): void {
  let last = ""
  for (let attempt = 1; ; attempt++) {
    const text = printTransaction(plan()) + wanted.map(conditionLines).join("")
    try {
      runNft(text)
      return
    } catch (error) {
      if (!isCniError(error) || attempt === ATTEMPTS || text === last) throw error
      last = text // if the next plan is the same, nothing has come in between
    }
  }
}

/**
 * A chain that lets packets go on to the maps only if they meet the conditions, and a rule that sends packets to this
 * attachment's ports there. `accept` ends the way through this table: such a packet is not mapped.
 */
export function conditionLines({ layout, comment, part, conditions }: Wanted): string {
  if (conditions === "") return ""
  const chain = conditionsChain(layout, comment)
  const name = `${chain.table.family} ${chain.table.name}`
  const jump = `jump ${chain.name} comment "${comment}"`
  const rules = ([true, false] as const).flatMap((isOneAddress) => {
    const keys = part.mappings.filter(({ hostIp }) => (hostIp !== undefined) === isOneAddress).map(printKey(layout))
    const address = isOneAddress ? `${layout.family} daddr . ` : ""
    return keys.length === 0 ? [] : [`${address}meta l4proto . th dport { ${keys.join(", ")} } ${jump}`]
  })
  return [
    `add chain ${name} ${chain.name}`,
    `add rule ${name} ${chain.name} ${conditions} return`,
    `add rule ${name} ${chain.name} accept`,
    ...rules.map((rule) => `add rule ${name} ${layout.conditions.name} ${rule}`),
    "",
  ].join("\n")
}

/** The chain of one attachment. */
export function conditionsChain({ table }: Layout, comment: string): Chain {
  const hash = sha256(comment).slice(0, 16)
  return { table, name: `only-${hash}` }
}

function printKey(layout: Layout): (mapping: Mapping) => string {
  return (mapping) => {
    const { set, key } = keyOf(layout, mapping)
    return set.key.map((type, at) => type.print(key[at] ?? new Uint8Array(type.size))).join(" . ")
  }
}
