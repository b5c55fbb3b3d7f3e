import { type Content, isSameRule, printRule, type Removal, type Rule, splitWords, type TableName } from "./rule.ts"

/**
 * A change of a table. `create` is refused if the chain exists, so that only one of two callers creates it. `reset`
 * creates a chain or empties an existing one. `delete` removes a chain with its rules.
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

/** Returns a removal as changes: rules before chains, because a rule that jumps to a chain prevents its deletion. */
export function removalChanges({ rules, chains }: Removal): Change[] {
  return [...rules.map(rule.remove), ...chains.map(chain.delete)]
}

/** Returns the input with which `iptables-restore --noflush` makes all these changes or none. */
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

/** Parses the output of `iptables-save`. Returns the chains and rules of one table, without counters. */
export function parseSave(text: string, table: TableName): Content {
  const chains: string[] = []
  const rules: Rule[] = []
  const dropping: string[] = []
  let isOurs = false
  for (const line of text.split("\n")) {
    if (line.startsWith("*")) isOurs = line.slice(1).trim() === table
    else if (!isOurs) continue
    else if (line.startsWith(":")) {
      const [chain = "", policy] = line.slice(1).split(" ")
      chains.push(chain)
      if (policy === "DROP") dropping.push(chain)
    } else if (line.startsWith("-A ") || line.startsWith("[")) rules.push(...readRule(line))
  }
  return dropping.length === 0 ? { chains, rules } : { chains, rules, dropping }
}

/** Parses a line `-A CHAIN words`, which may begin with counters in brackets. */
function readRule(line: string): Rule[] {
  const words = splitWords(line)
  const at = words.indexOf("-A")
  const chain = words[at + 1]
  return at === -1 || chain === undefined ? [] : [{ chain, words: words.slice(at + 2) }]
}

/** Returns the content that a table has after these changes, for the next plan of the same restore. */
export function applied(found: Content, changes: readonly Change[]): Content {
  const [chains, rules] = [new Set(found.chains), [...found.rules]]
  const empty = (chain: string) => {
    for (let at = rules.length - 1; at >= 0; at--) if (rules[at]?.chain === chain) rules.splice(at, 1)
  }
  for (const change of changes) {
    if ("chain" in change) {
      if (chains.has(change.chain)) empty(change.chain)
      if (change.verb === "delete") chains.delete(change.chain)
      else chains.add(change.chain)
    } else if (change.verb === "append") rules.push(change.rule)
    else if (change.verb === "prepend") rules.unshift(change.rule)
    else {
      const { rule: gone } = change
      const at = rules.findIndex((one) => isSameRule(one, gone))
      if (at >= 0) rules.splice(at, 1)
    }
  }
  return { ...found, chains: [...chains], rules }
}
