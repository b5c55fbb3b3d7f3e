import { sha512 } from "../engine/mod.ts"

/** The tables in which the plugins add rules. */
export type TableName = "nat" | "filter" | "mangle" | "raw"

/**
 * A rule: its chain, and the words after `-A CHAIN`. The words have the spelling and order of `iptables-save`, so that
 * the rule can be found again: `-s 10.1.0.2/32` and not `-s 10.1.0.2`, addresses before `-m`, `-j` last.
 */
export interface Rule {
  chain: string
  words: readonly string[]
}

/** The chains and rules of a table, or of the part that a search has found. The rules are in order. */
export interface Content<R extends Rule = Rule> {
  chains: readonly string[]
  rules: readonly R[]
  /** The built-in chains with policy DROP; undefined if the policies were not read. */
  dropping?: readonly string[]
}

/** Rules and chains to remove. A chain is removed with all its rules. */
export interface Removal<R extends Rule = Rule> {
  rules: readonly R[]
  chains: readonly string[]
}

/** Returns the target of a rule: a chain, or a verdict such as ACCEPT. */
export function targetOf(rule: Rule): string | undefined {
  return wordAfter(rule, "-j") ?? wordAfter(rule, "-g")
}

export function commentOf(rule: Rule): string | undefined {
  return wordAfter(rule, "--comment")
}

/** Returns a rule's source address, "10.1.0.2/32"; `undefined` if the rule compares no source, or a negated one. */
export function sourceOf(rule: Rule): string | undefined {
  return wordAfter(rule, "-s")
}

/** Like `sourceOf`, for the destination. */
export function destinationOf(rule: Rule): string | undefined {
  return wordAfter(rule, "-d")
}

/** Returns the input interface of a rule; `undefined` if the rule compares no interface, or a negated one. */
export function inputOf(rule: Rule): string | undefined {
  return wordAfter(rule, "-i")
}

/** Like `inputOf`, for the output interface. */
export function outputOf(rule: Rule): string | undefined {
  return wordAfter(rule, "-o")
}

function wordAfter({ words }: Rule, option: string): string | undefined {
  const at = words.indexOf(option)
  return at === -1 || words[at - 1] === "!" ? undefined : words[at + 1]
}

/** Reports whether two rules have the same words and are in chains of the same name. */
export function isSameRule(a: Rule, b: Rule): boolean {
  return a.chain === b.chain && a.words.length === b.words.length && a.words.every((word, at) => word === b.words[at])
}

/** Formats a rule without its verb: `POSTROUTING -s 10.1.0.2/32 -j CNI-x`. */
export function printRule({ chain, words }: Rule): string {
  return [chain, ...words].map(quoteWord).join(" ")
}

/**
 * Quotes a word for `iptables-restore`. A word with special characters is put into double quotes, with a backslash
 * before quotes and backslashes. Throws `RangeError` for an empty word, and for line ends, which would begin a new
 * command.
 */
export function quoteWord(word: string): string {
  if (word === "" || /[\0\r\n]/.test(word)) throw new RangeError(`${JSON.stringify(word)} cannot be part of a rule`)
  return /^[\w!#%+,./:=@-]+$/.test(word) ? word : `"${word.replace(/["\\]/g, "\\$&")}"`
}

/** Splits a line of `iptables-save` into words. */
export function splitWords(line: string): string[] {
  const words: string[] = []
  let word = ""
  let isQuoted = false
  for (let at = 0; at < line.length; at++) {
    const character = line[at] ?? ""
    if (character === '"') isQuoted = !isQuoted
    else if (isQuoted && character === "\\") word += line[++at] ?? ""
    else if (isQuoted || character !== " ") word += character
    else if (word !== "") {
      words.push(word)
      word = ""
    }
  }
  return word === "" ? words : [...words, word]
}

/** The maximum length of a chain's name (`XT_EXTENSION_MAXNAMELEN` minus the NUL). */
const CHAIN_NAME_LENGTH = 28
/** The maximum length of a comment (`XT_MAX_COMMENT_LEN` minus the NUL). */
export const COMMENT_LENGTH = 255

/**
 * Returns the name of the chain for a container in a network: `prefix`, and as many hex digits of the SHA-512 of
 * network and container ID as fit into 28 characters. As in the Go plugins, all interfaces of the container share the
 * chain.
 */
export function chainName(prefix: string, { network, containerId }: { network: string; containerId: string }): string {
  const hash = sha512(network + containerId)
  return (prefix + hash).slice(0, CHAIN_NAME_LENGTH)
}

/** Returns `prefix` and the Go plugins' comment, `name: "NET" id: "CID"`, truncated if it is too long. */
export function containerComment(owner: { network: string; containerId: string }, prefix = ""): string {
  const comment = `${networkComment(owner.network, prefix)}${JSON.stringify(owner.containerId)}`
  return comment.length <= COMMENT_LENGTH ? comment : `${comment.slice(0, COMMENT_LENGTH - 3)}...`
}

/** Returns the text with which the comments of all containers in a network begin. */
export function networkComment(network: string, prefix = ""): string {
  return `${prefix}name: ${JSON.stringify(network)} id: `
}
