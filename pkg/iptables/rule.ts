import { quoteWord } from "./words.ts"

/** Address families by the names that nf_tables has for them: `iptables` and `ip6tables`. */
export type Family = "ip" | "ip6"

/** The tables that plugins work in. */
export type TableName = "nat" | "filter" | "mangle" | "raw"

/**
 * A rule: its chain, and the words after `-A CHAIN`, spelled and ordered as `iptables-save` prints them, since that is
 * how a rule is found again: `-s 10.1.0.2/32` and not `-s 10.1.0.2`, addresses before `-m`, `-j` last.
 */
export interface Rule {
  chain: string
  words: readonly string[]
}

/** What a table holds, or the part of it that was looked for; rules in their order. */
export interface Content<R extends Rule = Rule> {
  chains: readonly string[]
  rules: readonly R[]
}

/** Rules and chains to take out; a chain goes with whatever is in it. */
export interface Removal<R extends Rule = Rule> {
  rules: readonly R[]
  chains: readonly string[]
}

/** Where a rule sends its packets: a chain, or a target such as ACCEPT. */
export function targetOf(rule: Rule): string | undefined {
  return wordAfter(rule, "-j") ?? wordAfter(rule, "-g")
}

export function commentOf(rule: Rule): string | undefined {
  return wordAfter(rule, "--comment")
}

/** The packets' source that a rule asks for, "10.1.0.2/32"; undefined when it asks for none, or for any other. */
export function sourceOf(rule: Rule): string | undefined {
  return wordAfter(rule, "-s")
}

/** The same of their destination. */
export function destinationOf(rule: Rule): string | undefined {
  return wordAfter(rule, "-d")
}

function wordAfter({ words }: Rule, option: string): string | undefined {
  const at = words.indexOf(option)
  return at === -1 || words[at - 1] === "!" ? undefined : words[at + 1]
}

/** Whether two rules say the same in the same words, in chains of the same name. */
export function isSameRule(a: Rule, b: Rule): boolean {
  return a.chain === b.chain && a.words.length === b.words.length && a.words.every((word, at) => word === b.words[at])
}

/** A rule without its verb: `POSTROUTING -s 10.1.0.2/32 -j CNI-x`. */
export function printRule({ chain, words }: Rule): string {
  return [chain, ...words].map(quoteWord).join(" ")
}
