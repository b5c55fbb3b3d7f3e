import { sha512 } from "../engine/mod.ts"

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
  /** The built-in chains whose policy is DROP; undefined where that was not looked at. */
  dropping?: readonly string[]
}

/** Rules and chains to take out; a chain goes with everything in it. */
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

/** The source address that a rule matches, "10.1.0.2/32"; `undefined` when it matches no source, or a negated one. */
export function sourceOf(rule: Rule): string | undefined {
  return wordAfter(rule, "-s")
}

/** The same of their destination. */
export function destinationOf(rule: Rule): string | undefined {
  return wordAfter(rule, "-d")
}

/** The input interface that a rule matches; `undefined` when it matches no interface, or a negated one. */
export function inputOf(rule: Rule): string | undefined {
  return wordAfter(rule, "-i")
}

/** The same of where they go out by. */
export function outputOf(rule: Rule): string | undefined {
  return wordAfter(rule, "-o")
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

/**
 * A word as `iptables-restore` reads it: in double quotes where it has other than plain characters, with a backslash
 * before quotes and backslashes. Throws `RangeError` for an empty word and for line ends, which would begin a new line.
 */
export function quoteWord(word: string): string {
  if (word === "" || /[\0\r\n]/.test(word)) throw new RangeError(`${JSON.stringify(word)} cannot be part of a rule`)
  return /^[\w!#%+,./:=@-]+$/.test(word) ? word : `"${word.replace(/["\\]/g, "\\$&")}"`
}

/** The words of a line that `iptables-save` has written. */
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

/** What a chain's name may have (`XT_EXTENSION_MAXNAMELEN` less the NUL): `iptables` takes no longer ones. */
const CHAIN_NAME_LENGTH = 28
/** What a comment may have (`XT_MAX_COMMENT_LEN` less the NUL). */
export const COMMENT_LENGTH = 255

/**
 * The name of a container's chain in a network: `prefix`, and as many hex digits of SHA-512 over network and container
 * id as make 28 characters. As upstream names it: all interfaces of the container have one.
 */
export function chainName(prefix: string, { network, containerId }: { network: string; containerId: string }): string {
  const hash = sha512(network + containerId)
  return (prefix + hash).slice(0, CHAIN_NAME_LENGTH)
}

/** Upstream's comment on a container's rules, `name: "NET" id: "CID"`, after `prefix`; cut where it is too long. */
export function containerComment(owner: { network: string; containerId: string }, prefix = ""): string {
  const comment = `${networkComment(owner.network, prefix)}${JSON.stringify(owner.containerId)}`
  return comment.length <= COMMENT_LENGTH ? comment : `${comment.slice(0, COMMENT_LENGTH - 3)}...`
}

/** What the comments of all containers of a network begin with. */
export function networkComment(network: string, prefix = ""): string {
  return `${prefix}name: ${JSON.stringify(network)} id: `
}
