import { printRule, type Removal, type Rule, type TableName } from "./rule.ts"

/**
 * One step of changing a table. `create` is refused when the chain is there, so that two callers cannot both think they
 * made it; `reset` takes that for success and empties it. `delete` takes the chain with its rules.
 */
export type Change =
  | { verb: "create" | "reset" | "delete"; chain: string }
  | { verb: "append" | "prepend" | "remove"; rule: Rule }

export const chain = {
  create: (name: string): Change => ({ verb: "create", chain: name }),
  reset: (name: string): Change => ({ verb: "reset", chain: name }),
  delete: (name: string): Change => ({ verb: "delete", chain: name }),
}

export const rule = {
  append: (rule: Rule): Change => ({ verb: "append", rule }),
  prepend: (rule: Rule): Change => ({ verb: "prepend", rule }),
  remove: (rule: Rule): Change => ({ verb: "remove", rule }),
}

/** A removal as changes: rules first, since a chain that a rule leads to cannot go. */
export function removalChanges({ rules, chains }: Removal): Change[] {
  return [...rules.map(rule.remove), ...chains.map(chain.delete)]
}

/** The input by which `iptables-restore --noflush` makes all these changes, or none. */
export function printRestore(table: TableName, changes: readonly Change[]): string {
  return [`*${table}`, ...changes.flatMap(printChange), "COMMIT", ""].join("\n")
}

function printChange(change: Change): string[] {
  switch (change.verb) {
    case "create":
      return [`-N ${change.chain}`]
    case "reset":
      return [`:${change.chain} - [0:0]`]
    case "delete":
      return [`-F ${change.chain}`, `-X ${change.chain}`]
    case "append":
      return [`-A ${printRule(change.rule)}`]
    case "prepend":
      return [`-I ${printRule(change.rule)}`]
    case "remove":
      return [`-D ${printRule(change.rule)}`]
  }
}
