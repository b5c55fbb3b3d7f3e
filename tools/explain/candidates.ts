import type { KnownMessage } from "./known.ts"

const WORD = /[a-z0-9_]{3,}/g
/** The length of words that are so rare that few lines contain them. */
const LONG = 5

/** Words with other characters on both sides, so that the text around a message in a log cannot extend them. */
const INNER_WORD = /(?<=[^a-z0-9_])[a-z0-9_]{3,}(?=[^a-z0-9_])/g

/** Characters that log formats escape. */
const ESCAPED = /["\\<>&]/

interface Sought {
  readonly at: number
  readonly known: KnownMessage
  /** A text that every matching line contains. */
  readonly piece: string
}

/**
 * Finds the messages that a log line may contain, by a word that each message requires. Matching hundreds of
 * expressions against many thousands of lines would take a minute.
 */
export class Candidates {
  readonly #byWord = new Map<string, Sought[]>()
  /** Messages without such a word, by a part of a word. */
  readonly #byPart = new Map<string, Sought[]>()

  constructor(messages: readonly KnownMessage[]) {
    const wordsOf = messages.map(({ literals }) => literals.flatMap((literal) => literal.match(INNER_WORD) ?? []))
    const uses = new Map<string, number>()
    for (const word of wordsOf.flat()) uses.set(word, (uses.get(word) ?? 0) + 1)
    const rank = (word: string) => (word.length < LONG ? messages.length : 0) + (uses.get(word) ?? 0)
    for (const [at, known] of messages.entries()) {
      const sought = { at, known, piece: longest(known.literals.flatMap((literal) => literal.split(ESCAPED))) }
      const [rarest] = (wordsOf[at] ?? []).toSorted((a, b) => rank(a) - rank(b) || b.length - a.length)
      const [place, key] = rarest === undefined ? [this.#byPart, firstPart(sought.piece)] : [this.#byWord, rarest]
      place.getOrInsertComputed(key, () => []).push(sought)
    }
  }

  /** Returns all messages that the line contains, and some that it does not contain, in their original order. */
  in(line: string): KnownMessage[] {
    const text = bothWays(line.toLowerCase())
    const found: Sought[] = []
    const take = (some: readonly Sought[]) => {
      for (const sought of some) if (text.includes(sought.piece)) found.push(sought)
    }
    for (const [part, some] of this.#byPart) if (text.includes(part)) take(some)
    for (const word of new Set(text.match(WORD))) take(this.#byWord.get(word) ?? [])
    return found.sort((a, b) => a.at - b.at).map(({ known }) => known)
  }
}

/** Returns a line. If it has backslashes, also returns the line with its JSON escapes decoded. */
function bothWays(line: string): string {
  if (!line.includes("\\")) return line
  const read = line.replaceAll("\\/", "/").replace(/\\+(?:u[0-9a-f]{4}|[ntr])/g, " ")
  return read === line ? line : `${line}\n${read}`
}

function longest(texts: readonly string[]): string {
  return texts.reduce((best, text) => (text.length > best.length ? text : best), "")
}

function firstPart(piece: string): string {
  return /[a-z0-9_]+/.exec(piece)?.[0] ?? piece
}
