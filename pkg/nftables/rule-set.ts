import { AF_INET, AF_INET6 } from "../types/mod.ts"
import type { familyNumber, hookNumber, policyNumber } from "./attributes.ts"
import type { DataType } from "./data-types.ts"
import type { Field } from "./fields.ts"

/** The family of a table, by the name that `nft` uses. */
export type TableFamily = keyof typeof familyNumber

/** The family of tables for each address family. */
export const tableFamily = { [AF_INET]: "ip", [AF_INET6]: "ip6" } as const

/** A table, which contains chains and sets. */
export interface Table {
  family: TableFamily
  name: string
  comment?: string | undefined
}

/** The kernel's priorities, <linux/netfilter_ipv4.h>; IPv6 has the same. `nft`: raw, dstnat, srcnat. */
export const NF_IP_PRI_RAW = -300
export const NF_IP_PRI_NAT_DST = -100
export const NF_IP_PRI_NAT_SRC = 100

/** A chain of rules. With `base` it is attached to a hook of the kernel. */
export interface Chain {
  table: Table
  name: string
  base?:
    | {
        type: "filter" | "nat" | "route"
        hook: keyof typeof hookNumber
        /** The chain with the lowest priority is evaluated first; of equal ones, the one added last. */
        priority: number
        policy: keyof typeof policyNumber
      }
    | undefined
  comment?: string | undefined
}

/** A set; with `value` or `verdicts` a map. A key with several types is a concatenation. */
export interface NamedSet {
  table: Table
  name: string
  key: readonly DataType[]
  value?: readonly DataType[] | undefined
  /** Whether the values of the map are verdicts. */
  verdicts?: true | undefined
  comment?: string | undefined
}

export type Verdict = "accept" | "drop" | "return" | { jump: string } | { goto: string }

/** An element of a set or map. The key and the value have one array for each type of the set. */
export interface Element {
  key: readonly Uint8Array[]
  value?: readonly Uint8Array[] | undefined
  verdict?: Verdict | undefined
  comment?: string | undefined
  /** A text stored with the comment, which `nft` does not show: at most 123 bytes with the longest comment. */
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

/** An existing rule, identified by its handle in the kernel. */
export interface RuleHandle {
  chain: Chain
  handle: bigint
}

/**
 * One operation of a transaction. If the object exists, `add` succeeds without changing it (but adds a rule again), and
 * `create` fails. `remove` fails with `ENOENT` if the object does not exist.
 */
export type Operation = { readonly encoded?: EncodedMessage } & (
  | { verb: "add" | "create" | "delete"; object: "table"; table: Table }
  | { verb: "add" | "create" | "delete" | "flush"; object: "chain"; chain: Chain }
  | { verb: "add" | "create" | "delete"; object: "set"; set: NamedSet }
  | { verb: "add" | "insert"; object: "rule"; rule: Rule }
  | { verb: "delete"; object: "rule"; rule: RuleHandle }
  | { verb: "add" | "create" | "delete"; object: "element"; set: NamedSet; elements: readonly Element[] }
)

/** The message of an operation that was encoded ahead. */
export interface EncodedMessage {
  readonly type: number
  readonly flags: number
  readonly payload: Uint8Array
  /** The number of the set in the transaction, if the operation adds a set. */
  readonly setId: number | undefined
}

/** Returns the operation that only activates a dormant table. It must precede operations that add objects to it. */
export function wake({ family, name }: Table): Operation {
  return add.table({ family, name })
}

/** Returns the functions that make operations of one verb. */
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

/** Makes operations that add a rule at the beginning of its chain, like `nft insert rule`. */
export const insert = {
  rule: (rule: Rule): Operation => ({ verb: "insert", object: "rule", rule }),
}

/** Makes operations like `nft delete`. Deleting a table also deletes everything in it. */
export const remove = {
  ...operationsOf("delete"),
  rule: (rule: RuleHandle): Operation => ({ verb: "delete", object: "rule", rule }),
}

/** Makes operations that remove all rules of a chain, like `nft flush chain`. */
export const flush = {
  chain: (chain: Chain): Operation => ({ verb: "flush", object: "chain", chain }),
}
