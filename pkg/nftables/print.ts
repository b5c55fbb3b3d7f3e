import { u32 } from "../netlink/mod.ts"
import type { DataType } from "./data-types.ts"
import type { Field } from "./fields.ts"
import type { Chain, Element, NamedSet, Operation, Rule, Statement, Table, Verdict } from "./rule-set.ts"

/** Formats a transaction as a file for `nft -f`, one line per operation. */
export function printTransaction(operations: readonly Operation[]): string {
  return operations.map((operation) => `${printOperation(operation)}\n`).join("")
}

/** Formats one operation in `nft`'s syntax: `add element ip t s { 10.0.0.1 comment "x" }`. */
export function printOperation(operation: Operation): string {
  const { verb } = operation
  const isNew = verb === "add" || verb === "create"
  switch (operation.object) {
    case "table": {
      const { table } = operation
      return `${verb} table ${nameOfTable(table)}${isNew ? block([...commentOf(table)]) : ""}`
    }
    case "chain": {
      const { chain } = operation
      return `${verb} chain ${nameIn(chain)}${isNew ? block([...baseOf(chain), ...commentOf(chain)]) : ""}`
    }
    case "set": {
      const { set } = operation
      return `${verb} ${set.value || set.verdicts ? "map" : "set"} ${nameIn(set)}${isNew ? block(propertiesOf(set)) : ""}`
    }
    case "rule": {
      const { rule } = operation
      if ("handle" in rule) return `${verb} rule ${nameIn(rule.chain)} handle ${rule.handle}`
      return `${verb} rule ${printRule(rule)}`
    }
    case "element": {
      const { set, elements } = operation
      const printed = elements.map((element) => (isNew ? printElement(set, element) : printKey(set, element)))
      return `${verb} element ${nameIn(set)} { ${printed.join(", ")} }`
    }
  }
}

/** Formats a rule with its chain: `ip t c ip saddr @s accept comment "x"`. */
export function printRule(rule: Rule): string {
  return [nameIn(rule.chain), ...rule.statements.map(printStatement), ...commentOf(rule)].join(" ")
}

function nameOfTable({ family, name }: Table): string {
  return `${family} ${name}`
}

function nameIn({ table, name }: Chain | NamedSet): string {
  return `${nameOfTable(table)} ${name}`
}

/** Formats ` { a; b; }`; an empty text for no lines. */
function block(lines: readonly string[]): string {
  return lines.length === 0 ? "" : ` { ${lines.map((line) => `${line};`).join(" ")} }`
}

function commentOf({ comment }: { comment?: string | undefined }): string[] {
  return comment === undefined ? [] : [`comment "${comment}"`]
}

/** The names of priorities by hook. In tables of family bridge these names mean other numbers and are not printed. */
const priorityNames: Readonly<Record<string, string>> = {
  "prerouting -100": "dstnat",
  "postrouting 100": "srcnat",
}

function baseOf({ base, table }: Chain): string[] {
  if (!base) return []
  const name = base.priority === 0 ? "filter" : priorityNames[`${base.hook} ${base.priority}`]
  const priority = (table.family === "bridge" ? undefined : name) ?? base.priority
  return [`type ${base.type} hook ${base.hook} priority ${priority}`, `policy ${base.policy}`]
}

function propertiesOf(set: NamedSet): string[] {
  const value = set.verdicts ? " : verdict" : set.value ? ` : ${namesOf(set.value)}` : ""
  return [`type ${namesOf(set.key)}${value}`, ...commentOf(set)]
}

function namesOf(types: readonly DataType[]): string {
  return types.map(({ name }) => name).join(" . ")
}

/** Formats an element as `nft` does between braces: `10.0.0.1 . 10.0.0.0 comment "x"`. */
export function printElement(set: NamedSet, element: Element): string {
  const printed = [printKey(set, element), ...commentOf(element)]
  if (element.verdict !== undefined) printed.push(":", printVerdict(element.verdict))
  if (element.value !== undefined) printed.push(":", printParts(set.value ?? [], element.value))
  return printed.join(" ")
}

function printKey(set: NamedSet, { key }: Element): string {
  return printParts(set.key, key)
}

function printParts(types: readonly DataType[], parts: readonly Uint8Array[]): string {
  return types.map((type, index) => type.print(parts[index] ?? new Uint8Array(type.size))).join(" . ")
}

/** Formats a statement in `nft`'s syntax: `ip daddr != 224.0.0.0/4`. */
function printStatement(statement: Statement): string {
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
    case "label":
      return `ct label ${statement.bit}`
    case "dnat": {
      const { fields, map, label } = statement
      return `${label === undefined ? "" : `ct label set ${label} `}dnat to ${join(fields)} map @${map.name}`
    }
    case "vmap":
      return `${join(statement.fields)} vmap @${statement.map.name}`
    case "mark": {
      const { bits, isSet } = statement
      return `meta mark set meta mark ${isSet ? "|" : "&"} 0x${(isSet ? bits : ~bits >>> 0).toString(16)}`
    }
    case "extension":
      return `xt match "${statement.name}"`
    case "masquerade":
    case "counter":
      return statement.kind
    case "verdict":
      return printVerdict(statement.verdict)
  }
}

/** Formats a verdict: `accept`, `jump CHAIN`, or `goto CHAIN`. */
export function printVerdict(verdict: Verdict): string {
  if (typeof verdict === "string") return verdict
  return "goto" in verdict ? `goto ${verdict.goto}` : `jump ${verdict.jump}`
}

function not(op: "==" | "!="): string {
  return op === "!=" ? "!= " : ""
}

function join(fields: readonly Field[]): string {
  return fields.map(({ name }) => name).join(" . ")
}
