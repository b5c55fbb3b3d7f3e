import { encodeUtf8, findBytes } from "../engine/mod.ts"
import { type Message, NFGENMSG_SIZE } from "../netlink/mod.ts"
import { commentedRuleAttributes, NFT_MSG_GETRULE, ruleAttributes } from "./attributes.ts"
import { listElementComments } from "./elements.ts"
import type { Expression, UnknownExpression } from "./expressions.ts"
import { attributesOf, ifThere, type Netfilter, placeOf, tableRequest } from "./netfilter.ts"
import { printVerdict } from "./print.ts"
import type { Rule, RuleHandle, Table } from "./rule-set.ts"
import { readVerdict } from "./statements.ts"
import { isDormant, listSetNames, listTables } from "./tables.ts"
import { readComment } from "./userdata.ts"

/** A rule as the kernel lists it. */
export interface FoundRule extends RuleHandle {
  expressions: (Expression | UnknownExpression)[]
  comment: string | undefined
}

/**
 * Returns the rules of a chain in order, like `nft list chain`; without `name`, all rules of the table. With `needles`,
 * returns only rules whose bytes contain one of these, such as the name of a chain to which they jump. Returns an empty
 * list if the chain or table does not exist.
 */
export function listRules(
  socket: Pick<Netfilter, "dump">,
  { table, name }: { readonly table: Table; readonly name?: string },
  needles?: readonly Uint8Array[],
): FoundRule[] {
  return dumpRules(socket, table, name, (answer): FoundRule | undefined => {
    if (needles && !Number.isFinite(placeOf(needles, answer.payload))) return undefined
    const { table: of, chain, handle = 0n, expressions = [], userdata } = ruleAttributes.decode(attributesOf(answer))
    if (of !== table.name || chain === undefined || chain !== (name ?? chain)) return undefined
    return { chain: { table, name: chain }, handle, expressions, comment: readComment(userdata) }
  })
}

/** Returns the names of the chains to which a rule jumps. */
export function targetsOf({ expressions }: Pick<FoundRule, "expressions">): string[] {
  return expressions.flatMap(({ name, data }) =>
    name === "immediate" && !(data instanceof Uint8Array) ? (data.data?.verdict?.chain ?? []) : [],
  )
}

/** Returns the verdicts of a rule in `nft`'s syntax: "drop", "jump CHAIN". */
export function verdictsOf({ expressions }: Pick<FoundRule, "expressions">): string[] {
  return expressions.flatMap(({ name, data }) => {
    const found = name === "immediate" && !(data instanceof Uint8Array) && data.data && readVerdict(data.data)
    return found ? [printVerdict(found)] : []
  })
}

/** Returns the values that a rule compares or loads into registers, in order, each as `String(bytes)`. */
export function valuesOf({ expressions }: Pick<FoundRule, "expressions">): string[] {
  return expressions.flatMap(({ name, data }) =>
    (name === "cmp" || name === "immediate") && !(data instanceof Uint8Array) && data.data?.value
      ? [String(data.data.value)]
      : [],
  )
}

/** The comment of a rule, and the name of its chain. */
export interface RuleComment {
  chain: string
  /** Undefined for a rule without comment. */
  comment: string | undefined
}

/** Returns comments of a chain's rules in order, without `chain` of all; an empty list if it does not exist. */
export function listComments(socket: Pick<Netfilter, "dump">, table: Table, chain?: string): RuleComment[] {
  return dumpRules(socket, table, chain, (answer): RuleComment | undefined => {
    const found = commentedRuleAttributes.decode(attributesOf(answer))
    if (found.table !== table.name || (chain !== undefined && found.chain !== chain)) return undefined
    return { chain: found.chain ?? "", comment: readComment(found.userdata) }
  })
}

/** A rule or an element of a set that has a comment. */
export interface Commented {
  readonly table: Table
  /** The name of the chain or the set. */
  readonly name: string
  readonly comment: string
}

/**
 * Returns all rules and elements with a comment for which `isSought` is true. Reads all tables for which `isWanted` is
 * true, also those of other programs, which takes too long for a plugin. Throws `NetlinkError`.
 */
export function listCommented(
  socket: Pick<Netfilter, "dump">,
  isSought: (comment: string) => boolean,
  isWanted: (table: Table) => boolean = () => true,
): { rules: Commented[]; elements: Commented[] } {
  const tables = listTables(socket).filter(isWanted)
  const rules = tables.flatMap((table) =>
    listComments(socket, table).flatMap(({ chain, comment }) =>
      comment !== undefined && isSought(comment) ? [{ table, name: chain, comment }] : [],
    ),
  )
  const elements = tables.flatMap((table) =>
    listSetNames(socket, table).flatMap((name) =>
      listElementComments(socket, { table, name })
        .filter(isSought)
        .map((comment) => ({ table, name, comment })),
    ),
  )
  return { rules, elements }
}

/** Reports whether `hasRulesEvenIfDormant` is true and the table is active. Throws `NetlinkError`. */
export function hasRules(
  socket: Pick<Netfilter, "dump" | "get">,
  table: Table,
  rules: readonly Pick<Rule, "comment">[],
  chain?: string,
): boolean {
  return hasRulesEvenIfDormant(socket, table, rules, chain) && !isDormant(socket, table)
}

/**
 * Reports whether the chain has a rule with the comment of each of these rules; without `chain`, whether the table has.
 * The table may be dormant, so operations that add objects to it must be preceded by `wake`. Throws `NetlinkError`.
 */
export function hasRulesEvenIfDormant(
  socket: Pick<Netfilter, "dump">,
  table: Table,
  rules: readonly Pick<Rule, "comment">[],
  chain?: string,
): boolean {
  const name = encodeUtf8(`${table.name}\0`)
  const needles = rules.flatMap(({ comment }) => (comment === undefined ? [] : [encodeUtf8(`${comment}\0`)]))
  const found = dumpRules(socket, table, chain, ({ payload }) => {
    const has = (text: Uint8Array) => findBytes(payload, text, NFGENMSG_SIZE) >= 0
    return has(name) ? needles.filter(has) : undefined // only the comments matter, so nothing is decoded
  })
  const all = new Set(found.flat())
  return needles.every((needle) => all.has(needle))
}

/** Returns the results of `pick` for the rules of a chain; without `chain`, for all rules of the table. */
function dumpRules<T>(
  socket: Pick<Netfilter, "dump">,
  table: Table,
  chain: string | undefined,
  pick: (answer: Message) => T | undefined,
): T[] {
  const place = `${table.family} ${table.name}`
  const what = chain === undefined ? `list table ${place}` : `list chain ${place} ${chain}`
  const request = tableRequest(table, NFT_MSG_GETRULE, what, ruleAttributes.encode({ table: table.name, chain }))
  return ifThere(() => socket.dump(request, pick)) ?? []
}
