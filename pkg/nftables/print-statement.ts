import { u32 } from "../netlink/mod.ts"
import type { Field } from "./fields.ts"
import type { Verdict } from "./rule-set.ts"
import type { Statement } from "./statements.ts"

/** A statement as `nft` writes it: `ip daddr != 224.0.0.0/4`. */
export function printStatement(statement: Statement): string {
  switch (statement.kind) {
    case "match": {
      const { field, op, value } = statement
      return `${field.name} ${not(op)}${field.type.print(value)}`
    }
    case "prefix": {
      const { field, op, ip, length } = statement
      return `${field.name} ${not(op)}${field.type.print(ip)}/${length}`
    }
    case "bits":
      return `${statement.field.name} ${statement.field.type.print(u32.encode(statement.mask))}`
    case "lookup":
      return `${join(statement.fields)} ${not(statement.op)}@${statement.set.name}`
    case "vmap":
      return `${join(statement.fields)} vmap @${statement.map.name}`
    case "dnat":
      return `dnat to ${join(statement.fields)} map @${statement.map.name}`
    case "masquerade":
    case "counter":
      return statement.kind
    case "verdict":
      return printVerdict(statement.verdict)
  }
}

/** `accept`, or `jump CHAIN`. */
export function printVerdict(verdict: Verdict): string {
  if (typeof verdict === "string") return verdict
  return "jump" in verdict ? `jump ${verdict.jump}` : `goto ${verdict.goto}`
}

function not(op: "==" | "!="): string {
  return op === "!=" ? "!= " : ""
}

function join(fields: readonly Field[]): string {
  return fields.map(({ name }) => name).join(" . ")
}
