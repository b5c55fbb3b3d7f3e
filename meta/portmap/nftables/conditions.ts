import { sha256 } from "../../../pkg/engine/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  add,
  type Chain,
  type Element,
  type FoundRule,
  fields,
  flush,
  hasChain,
  type LineChanges,
  match,
  type Operation,
  printTransaction,
  remove,
  verdict,
} from "../../../pkg/nftables/mod.ts"
import { CniError, Code, isCniError } from "../../../pkg/types/mod.ts"
import { type Mapping, printHostEnd } from "../mapping.ts"
import { keyOf, readMapping } from "./elements.ts"
import type { Layout } from "./layout.ts"
import { runNft } from "./program.ts"
import type { Wanted } from "./wanted.ts"

/** Each lost race means that somebody else has changed the table. */
const ATTEMPTS = 5

/** Changes in nft's language besides: which of the mappings, by family and host end, stand by and have no rules yet. */
export interface ConditionalPlan {
  operations: readonly Operation[]
  standingBy: ReadonlySet<string>
}

/**
 * Makes the changes that `plan` decides on, and the conditions', in one transaction. Nobody but the program `nft` knows its
 * language, so it is run, for these attachments only. Throws `CniError`, and then nothing has changed.
 */
export function addConditional(wanted: readonly Wanted[], plan: () => ConditionalPlan): void {
  let last = ""
  for (let attempt = 1; ; attempt++) {
    const { operations, standingBy } = plan()
    const text = printTransaction(operations) + wanted.map((each) => conditionLines(each, standingBy)).join("")
    try {
      runNft(text)
      return
    } catch (error) {
      if (!isCniError(error) || text === last) throw error
      if (attempt === ATTEMPTS) {
        const reason = `other mappings have changed ${ATTEMPTS} times in between`
        throw new CniError(Code.TryAgainLater, `Cannot map ports: ${reason}`, { cause: error })
      }
      last = text // if the next plan is the same, nothing has come in between
    }
  }
}

/** A mapping's name in `standingBy`. */
export function nameIn({ family }: Layout, end: Omit<Mapping, "containerPort" | "family">): string {
  return `${family} ${printHostEnd(end)}`
}

/**
 * A chain that lets packets go on to the maps only if they meet the conditions, and a rule that sends packets to this
 * attachment's ports there. `accept` ends the way through this table: such a packet is not mapped.
 */
export function conditionLines({ layout, comment, part, conditions }: Wanted, standingBy: ReadonlySet<string>): string {
  if (conditions === "") return ""
  const chain = conditionsChain(layout, comment)
  const name = `${chain.table.family} ${chain.table.name}`
  const jump = `jump ${chain.name} comment "${comment}"`
  const mappings = part.mappings.filter((mapping) => !standingBy.has(nameIn(layout, mapping)))
  const rules = ([true, false] as const).flatMap((isOneAddress) => {
    const keys = mappings.filter(({ hostIp }) => (hostIp !== undefined) === isOneAddress).map(printKey(layout))
    const address = isOneAddress ? `${layout.family} daddr . ` : ""
    return keys.length === 0 ? [] : [`${address}meta l4proto . th dport { ${keys.join(", ")} } ${jump}`]
  })
  return [
    `add chain ${name} ${chain.name}`,
    `flush chain ${name} ${chain.name}`,
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

/**
 * The rules that put the conditions of attachments into force whose mappings have stood by until now. Throws
 * `NetlinkError`.
 */
export function promotionRules(
  socket: Pick<NetlinkSocket, "get">,
  layout: Layout,
  { promoted }: LineChanges,
): Operation[] {
  const isConditional = chainsOf(socket, layout)
  return promoted.flatMap(({ element }): Operation[] => {
    const { comment = "" } = element
    const mapping = readMapping(element)
    const chain = mapping && isConditional(comment)
    if (!chain) return []
    const { key } = keyOf(layout, { ...mapping, containerPort: mapping.port, family: layout.family })
    const [port, protocol, address] = key.toReversed()
    const destination = layout.family === "ip" ? fields.ipDestination : fields.ip6Destination
    const statements = [
      ...(address ? [match(destination, "==", address)] : []),
      ...(protocol ? [match(fields.protocol, "==", protocol)] : []),
      ...(port ? [match(fields.destinationPort, "==", port)] : []),
      verdict({ jump: chain.name }),
    ]
    return [add.rule({ chain: layout.conditions, statements, comment })]
  })
}

/** Takes out rules of `conditions`, and the chains of whoever these rules or elements belong to. Throws `NetlinkError`. */
export function removalOf(
  socket: Pick<NetlinkSocket, "get">,
  layout: Layout,
  rules: readonly FoundRule[],
  elements: readonly Element[],
): Operation[] {
  const chains = new Map<string, Chain>()
  for (const { expressions, chain } of rules) {
    for (const { name, data } of expressions) {
      const target = name === "immediate" && !(data instanceof Uint8Array) ? data.data?.verdict?.chain : undefined
      if (target !== undefined) chains.set(target, { table: chain.table, name: target })
    }
  }
  const isConditional = chainsOf(socket, layout)
  for (const { comment = "", note } of elements) {
    // nft, by which conditional ones are made, keeps no notes.
    const chain = note === undefined ? isConditional(comment) : undefined
    if (chain) chains.set(chain.name, chain)
  }
  return [
    ...rules.map(remove.rule),
    ...[...chains.values()].flatMap((chain) => [flush.chain(chain), remove.chain(chain)]),
  ]
}

/** Finds an attachment's chain, if it has one; each is asked for once. */
function chainsOf(socket: Pick<NetlinkSocket, "get">, layout: Layout): (comment: string) => Chain | undefined {
  const known = new Map<string, Chain | undefined>()
  return (comment) => {
    if (!known.has(comment)) {
      const chain = conditionsChain(layout, comment)
      known.set(comment, hasChain(socket, chain) ? chain : undefined)
    }
    return known.get(comment)
  }
}
