import type { Content, Rule, TableName } from "./rule.ts"
import { splitWords } from "./words.ts"

/** Reads what `iptables-save` prints: the chains and rules of one table, without counters; nothing for another's. */
export function parseSave(text: string, table: TableName): Content {
  const chains: string[] = []
  const rules: Rule[] = []
  let isOurs = false
  for (const line of text.split("\n")) {
    if (line.startsWith("*")) isOurs = line.slice(1).trim() === table
    else if (!isOurs) continue
    else if (line.startsWith(":")) chains.push(line.slice(1, line.indexOf(" ")))
    else if (line.startsWith("-A ") || line.startsWith("[")) rules.push(...readRule(line))
  }
  return { chains, rules }
}

/** `-A CHAIN words`, after packets and bytes in brackets when they were asked for. */
function readRule(line: string): Rule[] {
  const words = splitWords(line)
  const at = words.indexOf("-A")
  const chain = words[at + 1]
  return at === -1 || chain === undefined ? [] : [{ chain, words: words.slice(at + 2) }]
}
