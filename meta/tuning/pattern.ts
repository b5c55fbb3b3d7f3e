import {
  charactersOf,
  escapedCharacter,
  type Flags,
  literal,
  perlClass,
  Reader,
  refuse,
  type Takes,
  takeClass,
} from "./pattern-characters.ts"

/** Reports whether an assertion (`^`, `$`, `\b`) holds between two characters; undefined is the start or the end. */
type Holds = (before: string | undefined, after: string | undefined) => boolean

export type Pattern =
  | { readonly is: "character"; readonly takes: Takes }
  | { readonly is: "place"; readonly holds: Holds; readonly isStart: boolean }
  | { readonly is: "sequence"; readonly of: readonly Pattern[] }
  | { readonly is: "choice"; readonly of: readonly Pattern[] }
  | { readonly is: "repeat"; readonly of: Pattern; readonly least: number; readonly most: number }

/** The highest repeat count that RE2 accepts. */
const mostRepeats = 1000
const deepest = 100

/**
 * Parses a regular expression in the syntax of RE2, which Go programs use: https://golang.org/s/re2syntax. Throws
 * `SyntaxError` if the expression is invalid, or if matching it would need more than linear time, such as `\1`.
 */
export function parsePattern(text: string): Pattern {
  const reader = new Reader(text)
  const pattern = parseChoice({ reader, flags: { i: false, m: false, s: false }, names: new Set(), depth: 0 })
  return reader.isAtEnd ? pattern : refuse("unexpected )")
}

/** The parser's state inside a group. Flags that are set in a group apply until its end. */
interface Group {
  readonly reader: Reader
  readonly names: Set<string>
  readonly depth: number
  flags: Flags
}

function parseChoice(group: Group): Pattern {
  const choices = [parseSequence(group)]
  while (group.reader.take(/\|/y)) choices.push(parseSequence(group))
  return choices.length === 1 && choices[0] ? choices[0] : { is: "choice", of: choices }
}

function parseSequence(group: Group): Pattern {
  const { reader } = group
  const parts: Pattern[] = []
  let isRepeated = false
  while (!reader.isAtEnd && !reader.take(/(?=[|)])/y)) {
    const count = reader.take(/(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})\??/y)
    if (!count) parts.push(...parseParts(group))
    else if (isRepeated) refuse(`invalid nested repetition operator: ${count[0]}`)
    else parts.push(repeat(parts.pop() ?? refuse(`missing argument to repetition operator: ${count[0]}`), count))
    isRepeated = count !== undefined
  }
  return { is: "sequence", of: parts }
}

/** Returns the part with its count: `*`, `+`, `?`, `{2}`, `{2,}`, `{2,3}`. Ignores laziness, which changes no match. */
function repeat(of: Pattern, [text, sign, first, comma, last]: RegExpExecArray): Pattern {
  if (sign) return { is: "repeat", of, least: sign === "+" ? 1 : 0, most: sign === "?" ? 1 : Number.POSITIVE_INFINITY }
  const least = Number(first)
  const most = last ? Number(last) : comma ? Number.POSITIVE_INFINITY : least
  if (least > mostRepeats || (last && most > mostRepeats) || most < least) refuse(`invalid repeat count: ${text}`)
  return { is: "repeat", of, least, most }
}

/** Parses the text up to the next repeat count. Returns one part; several parts for `\Q…\E`; none for flags. */
function parseParts(group: Group): readonly Pattern[] {
  const { reader, flags } = group
  const opened = reader.take(/\((?:\?(?:P?<(\w+)>|([imsU]*)(?:-([imsU]+))?([:)])))?/y)
  if (opened) return openGroup(group, opened)
  const quoted = reader.take(/\\Q(.*?)(?:\\E|$)/sy)?.[1]
  if (quoted !== undefined) return [...quoted].map((one) => character(literal(one, flags)))
  if (reader.take(/\[:\^?\w+:\]/y)) refuse("a class like [:alpha:] needs another pair of brackets: [[:alpha:]]")
  if (reader.take(/\[/y)) return [character(takeClass(reader, flags))]
  const sign = reader.take(/[.^$]|\\[AzbB]/y)?.[0]
  if (sign === ".") return [character((one) => flags.s || one !== "\n")]
  const isStart = sign === "\\A" || (sign === "^" && !flags.m) // only a match at the start of the text is anchored
  if (sign) return [{ is: "place", holds: places(sign, flags.m), isStart }]
  const perl = perlClass(reader)
  if (perl) return [character(charactersOf([perl], flags))]
  return [character(literal(escapedCharacter(reader) ?? reader.take(/./suy)?.[0] ?? "", flags))]
}

function openGroup(group: Group, [text, name, on = "", off = "", end]: RegExpExecArray): readonly Pattern[] {
  const { reader, names } = group
  if (text === "(" && reader.take(/\?/y)) refuse("RE2 does not define this kind of group: (?")
  if (name !== undefined && names.has(name)) refuse(`duplicate group name: ${name}`)
  if (name !== undefined) names.add(name)
  const set = (flag: keyof Flags) => !off.includes(flag) && (on.includes(flag) || group.flags[flag])
  const flags = { i: set("i"), m: set("m"), s: set("s") }
  if (end === ")") {
    group.flags = flags
    return []
  }
  if (group.depth === deepest) refuse(`groups are nested more than ${deepest} levels deep`)
  const inside = parseChoice({ reader, names, flags, depth: group.depth + 1 })
  return reader.take(/\)/y) ? [inside] : refuse("missing )")
}

const character = (takes: Takes): Pattern => ({ is: "character", takes })

function places(sign: string, ofLines: boolean): Holds {
  const isEnd = (one: string | undefined) => one === undefined || (ofLines && one === "\n")
  const isWord = (one: string | undefined) => one !== undefined && /^[0-9A-Za-z_]$/.test(one)
  switch (sign) {
    case "^":
      return (before) => isEnd(before)
    case "$":
      return (_, after) => isEnd(after)
    case "\\A":
      return (before) => before === undefined
    case "\\z":
      return (_, after) => after === undefined
    case "\\b":
      return (before, after) => isWord(before) !== isWord(after)
    default:
      return (before, after) => isWord(before) === isWord(after)
  }
}
