import { AF_INET, AF_INET6 } from "../types/mod.ts"
import type { familyNumber, hookNumber, policyNumber } from "./attributes.ts"
import type { DataType } from "./data-types.ts"
import type { Field } from "./fields.ts"

/** The families of tables by `nft`'s names. */
export type TableFamily = keyof typeof familyNumber

/** The families of tables for address families. */
export const tableFamily = { [AF_INET]: "ip", [AF_INET6]: "ip6" } as const

/** A table: the namespace of chains and sets. */
export interface Table {
  family: TableFamily
  name: string
  comment?: string | undefined
}

/**
 * The kernel's priorities of hooks, <linux/netfilter_ipv4.h>; those of IPv6 are the same. `nft` calls them raw, dstnat
 * and srcnat.
 */
export const NF_IP_PRI_RAW = -300
export const NF_IP_PRI_NAT_DST = -100
export const NF_IP_PRI_NAT_SRC = 100

/** A chain of rules; with `base` it is attached to a hook. */
export interface Chain {
  table: Table
  name: string
  base?:
    | {
        type: "filter" | "nat" | "route"
        hook: keyof typeof hookNumber
        /** The lowest is evaluated first; of equal ones, the chain that was added last. */
        priority: number
        policy: keyof typeof policyNumber
      }
    | undefined
  comment?: string | undefined
}

/** A set, or with `value` or `verdicts` a map. A key of several types is a concatenation. */
export interface NamedSet {
  table: Table
  name: string
  key: readonly DataType[]
  value?: readonly DataType[] | undefined
  /** The map's values are verdicts. */
  verdicts?: true | undefined
  comment?: string | undefined
}

export type Verdict = "accept" | "drop" | "return" | { jump: string } | { goto: string }

/** One element of a set or map: one value per part of the key. */
export interface Element {
  key: readonly Uint8Array[]
  value?: readonly Uint8Array[] | undefined
  verdict?: Verdict | undefined
  comment?: string | undefined
  /** Stored beside the comment, for programs: `nft` does not show it. At most 123 bytes with the longest comment. */
  note?: string | undefined
}

export type Comparison = "==" | "!="

/** A part of a rule in `nft`'s syntax, built by the functions of `statements.ts`. */
export type Statement =
  | { kind: "match"; field: Field; op: Comparison; value: Uint8Array }
  | { kind: "prefix"; field: Field; op: Comparison; ip: Uint8Array; length: number }
  | { kind: "bits"; field: Field; mask: number }
  | { kind: "lookup"; fields: readonly Field[]; op: Comparison; set: NamedSet }
  | { kind: "label"; bit: number }
  | { kind: "dnat"; fields: readonly Field[]; map: NamedSet; label: number | undefined }
  | { kind: "vmap"; fields: readonly Field[]; map: NamedSet }
  | { kind: "mark"; bits: number; isSet: boolean }
  | { kind: "masquerade" }
  | { kind: "counter" }
  | { kind: "extension"; name: string; revision: number; info: Uint8Array }
  | { kind: "verdict"; verdict: Verdict }

export interface Rule {
  chain: Chain
  statements: readonly Statement[]
  comment?: string | undefined
}

/** A rule by its number in the kernel. */
export interface RuleHandle {
  chain: Chain
  handle: bigint
}

/**
 * One step of a transaction. `add` succeeds if the object exists (a rule is always added); `create` fails then, and
 * `remove` fails with `ENOENT` if it does not exist.
 */
export type Operation = { readonly encoded?: EncodedMessage } & (
  | { verb: "add" | "create" | "delete"; object: "table"; table: Table }
  | { verb: "add" | "create" | "delete" | "flush"; object: "chain"; chain: Chain }
  | { verb: "add" | "create" | "delete"; object: "set"; set: NamedSet }
  | { verb: "add" | "insert"; object: "rule"; rule: Rule }
  | { verb: "delete"; object: "rule"; rule: RuleHandle }
  | { verb: "add" | "create" | "delete"; object: "element"; set: NamedSet; elements: readonly Element[] }
)

/** The message of an operation, where it was encoded ahead. */
export interface EncodedMessage {
  readonly type: number
  readonly flags: number
  readonly payload: Uint8Array
  /** The number of the set in its transaction, for a set. */
  readonly setId: number | undefined
}

/** Activates a table that has `flags dormant`, without other changes, before objects are added to it. */
export function wake({ family, name }: Table): Operation {
  return add.table({ family, name })
}

/** The operations of one verb on whole objects. */
function operationsOf<V extends "add" | "create" | "delete">(verb: V) {
  return {
    table: (table: Table): Operation => ({ verb, object: "table", table }),
    chain: (chain: Chain): Operation => ({ verb, object: "chain", chain }),
    set: (set: NamedSet): Operation => ({ verb, object: "set", set }),
    elements: (set: NamedSet, elements: readonly Element[]): Operation => ({ verb, object: "element", set, elements }),
  }
}

export const add = {
  ...operationsOf("add"),
  rule: (rule: Rule): Operation => ({ verb: "add", object: "rule", rule }),
}

export const create = operationsOf("create")

/** `nft insert rule`: adds the rule at the beginning of its chain. */
export const insert = {
  rule: (rule: Rule): Operation => ({ verb: "insert", object: "rule", rule }),
}

/** `nft delete`. A table is deleted with everything in it. */
export const remove = {
  ...operationsOf("delete"),
  rule: (rule: RuleHandle): Operation => ({ verb: "delete", object: "rule", rule }),
}

/** Removes all rules of a chain, like `nft flush chain`. */
export const flush = {
  chain: (chain: Chain): Operation => ({ verb: "flush", object: "chain", chain }),
}
