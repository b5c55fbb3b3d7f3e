import { type Content, isSameRule, printRule, type Removal, type Rule, splitWords, type TableName } from "./rule.ts"

/**
 * One step of changing a table. `create` is refused when the chain is there, so that of two callers only one has
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

/** The input for `iptables-restore --noflush`, which makes all these changes or no change. */
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

/** Reads what `iptables-save` prints: the chains and rules of one table, without counters; nothing for another's. */
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

/** `-A CHAIN words`, after packets and bytes in brackets when they were asked for. */
function readRule(line: string): Rule[] {
  const words = splitWords(line)
  const at = words.indexOf("-A")
  const chain = words[at + 1]
  return at === -1 || chain === undefined ? [] : [{ chain, words: words.slice(at + 2) }]
}

/** What a table holds after these changes: for the next plan of the same restore. */
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
