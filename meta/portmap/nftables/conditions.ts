import { encodeUtf8, sha256 } from "../../../pkg/engine/mod.ts"
import { findProgram, run } from "../../../pkg/iptables/mod.ts"
import type { NetlinkSocket } from "../../../pkg/netlink/mod.ts"
import {
  add,
  type Chain,
  type Element,
  type FoundRule,
  fields,
  flush,
  hasChain,
  match,
  type Operation,
  printTransaction,
  type QueueChanges,
  remove,
  targetsOf,
  verdict,
} from "../../../pkg/nftables/mod.ts"
import { AF_INET, CniError, Code, isCniError } from "../../../pkg/types/mod.ts"
import { type HostPort, printHostPort } from "../mapping.ts"
import { portKey, readDnat, type TableSpec } from "./elements.ts"
import type { TableLayout } from "./table.ts"

/** The maximum number of attempts to commit. An attempt fails if another process changes the table. */
const ATTEMPTS = 5

/**
 * Commits the planned operations and the conditions in one transaction of the program `nft`, because only `nft` parses
 * the language of the conditions. Throws `CniError` without having changed anything.
 */
export function commitByNft(plan: () => { operations: readonly Operation[]; conditions: string }): void {
  let last = ""
  for (let attempt = 1; ; attempt++) {
    const { operations, conditions } = plan()
    const text = printTransaction(operations) + conditions
    try {
      runNft(text)
      return
    } catch (error) {
      if (!isCniError(error) || text === last) throw error
      if (attempt === ATTEMPTS) {
        const reason = `other mappings changed during each of ${ATTEMPTS} attempts`
        throw new CniError(Code.TryAgainLater, `Cannot map ports: ${reason}`, { cause: error })
      }
      last = text // if the next plan is the same, no other process interfered
    }
  }
}

/**
 * Returns the commands for `nft` that add the conditions. A new chain returns the packets that meet the conditions, so
 * that the maps apply to these. It accepts all other packets, which are then not mapped. Rules jump to that chain for
 * this attachment's ports, except those in `standingBy`.
 */
export function printConditions(spec: TableSpec, standingBy: readonly string[]): string {
  const { layout, comment, mapped, conditions } = spec
  if (conditions === undefined) return ""
  const chain = conditionsChain(layout, comment)
  const name = `${chain.table.family} ${chain.table.name}`
  const jump = `jump ${chain.name} comment "${comment}"`
  const mappings = mapped.mappings.filter((mapping) => !standingBy.includes(printHostPort(mapping)))
  const rules = ([true, false] as const).flatMap((isOneAddress) => {
    const ours = mappings.filter(({ hostIp }) => (hostIp !== undefined) === isOneAddress)
    const keys = ours.map((mapping) => printPortKey(layout, mapping))
    const address = isOneAddress ? `${layout.table.family} daddr . ` : ""
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

function printPortKey(layout: TableLayout, mapping: HostPort): string {
  const { set, key } = portKey(layout, mapping)
  return set.key.map((type, at) => type.print(key[at] ?? new Uint8Array(type.size))).join(" . ")
}

/** The number of hash digits in the name of an owner's chain. */
const NAME_DIGITS = 16

export function conditionsChain({ table }: TableLayout, comment: string): Chain {
  return { table, name: `only-${sha256(comment).slice(0, NAME_DIGITS)}` }
}

/** Plans the jumps to conditions for mappings that have become active. Throws `NetlinkError`. */
export function addPromotedConditions(
  socket: Pick<NetlinkSocket, "get">,
  layout: TableLayout,
  { promoted }: QueueChanges,
): Operation[] {
  const findChain = chainFinder(socket, layout)
  return promoted.flatMap(({ element }): Operation[] => {
    const { comment = "" } = element
    const mapping = readDnat(element)
    const chain = mapping && findChain(comment)
    if (!chain) return []
    const [port, protocol, address] = portKey(layout, mapping).key.toReversed()
    const destination = layout.family === AF_INET ? fields.ipDestination : fields.ip6Destination
    const statements = [
      ...(address ? [match(destination, "==", address)] : []),
      ...(protocol ? [match(fields.protocol, "==", protocol)] : []),
      ...(port ? [match(fields.destinationPort, "==", port)] : []),
      verdict({ jump: chain.name }),
    ]
    return [add.rule({ chain: layout.conditions, statements, comment })]
  })
}

/** Plans the removal of rules of the chain `conditions`, and of their owners' chains. Throws `NetlinkError`. */
export function deleteConditions(
  socket: Pick<NetlinkSocket, "get">,
  layout: TableLayout,
  rules: readonly FoundRule[],
  elements: readonly Element[],
): Operation[] {
  const chains = new Map<string, Chain>()
  for (const rule of rules) {
    for (const name of targetsOf(rule)) chains.set(name, { table: rule.chain.table, name })
  }
  const findChain = chainFinder(socket, layout)
  for (const { comment = "", note } of elements) {
    // Elements of mappings with conditions are added by `nft`, which writes no notes.
    const chain = note === undefined ? findChain(comment) : undefined
    if (chain) chains.set(chain.name, chain)
  }
  return [
    ...rules.map(remove.rule),
    ...[...chains.values()].flatMap((chain) => [flush.chain(chain), remove.chain(chain)]),
  ]
}

/** Returns a function that finds an owner's chain, by one request per owner. */
function chainFinder(socket: Pick<NetlinkSocket, "get">, layout: TableLayout): (comment: string) => Chain | undefined {
  const known = new Map<string, Chain | undefined>()
  return (comment) => {
    if (!known.has(comment)) {
      const chain = conditionsChain(layout, comment)
      known.set(comment, hasChain(socket, chain) ? chain : undefined)
    }
    return known.get(comment)
  }
}

/** Returns the path of the program `nft`. Throws `CniError` if `nft` is not installed. */
export function requireNft(): string {
  const path = findProgram("nft")
  if (path !== undefined) return path
  throw new CniError(Code.Internal, 'Cannot set conditions: the program "nft" is missing', {
    details: 'install nftables, or remove "conditionsV4" and "conditionsV6": no other key needs a program',
  })
}

/** Runs `nft -f -`, which commits the text in one transaction. Throws `CniError` with nft's message. */
function runNft(text: string): void {
  const path = requireNft()
  const { exitCode, stderr } = run(path, ["-f", "-"], encodeUtf8(text))
  if (exitCode === 0) return
  throw new CniError(Code.Internal, `Cannot map ports by ${path}: ${stderr.trim().replace(/\s*\n\s*/g, "; ")}`, {
    details: 'it parses "conditionsV4" and "conditionsV6"',
  })
}
