/** Reports whether a character matches at one position of a pattern. */
export type Takes = (character: string) => boolean

/** Flags of RE2: `i` ignores case, `m` lets `^` and `$` match at line boundaries, `s` lets `.` match a newline. */
export interface Flags {
  readonly i: boolean
  readonly m: boolean
  readonly s: boolean
}

export class Reader {
  readonly text: string
  #at = 0

  constructor(text: string) {
    this.text = text
  }

  get isAtEnd(): boolean {
    return this.#at === this.text.length
  }

  /**
   * Matches a sticky expression at the reader's position, and moves past the match. Returns undefined without a match.
   */
  take(expression: RegExp): RegExpExecArray | undefined {
    expression.lastIndex = this.#at
    const found = expression.exec(this.text) ?? undefined
    if (found) this.#at += found[0].length
    return found
  }
}

/** Throws the `SyntaxError` for an invalid pattern. */
export function refuse(what: string): never {
  throw new SyntaxError(what)
}

/** A set of characters, written as the inside of a JavaScript character class; or the complement of that set. */
interface Characters {
  readonly body: string
  readonly isOthers: boolean
}

/** Perl's classes and the POSIX classes of RE2, which contain only ASCII characters. */
const perl: Readonly<Record<string, string>> = { d: "0-9", s: "\\t\\n\\f\\r ", w: "0-9A-Za-z_" }
const posix: Readonly<Record<string, string>> = {
  alnum: "0-9A-Za-z",
  alpha: "A-Za-z",
  ascii: "\\x00-\\x7f",
  blank: "\\t ",
  cntrl: "\\x00-\\x1f\\x7f",
  digit: "0-9",
  graph: "!-~",
  lower: "a-z",
  print: " -~",
  punct: "!-\\/:-@\\[-`\\{-~",
  space: "\\t\\n\\v\\f\\r ",
  upper: "A-Z",
  word: "0-9A-Za-z_",
  xdigit: "0-9A-Fa-f",
}

const named: Readonly<Record<string, string>> = { a: "\x07", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v" }

/** Returns a function that reports whether a character is in one of the sets. */
export function charactersOf(sets: readonly Characters[], { i }: Flags): Takes {
  const tests = sets.map(({ body, isOthers }) => new RegExp(`^[${isOthers ? "^" : ""}${body}]$`, i ? "iu" : "u"))
  return (one) => tests.some((test) => test.test(one))
}

export function literal(wanted: string, flags: Flags): Takes {
  return flags.i ? charactersOf([{ body: code(wanted), isOthers: false }], flags) : (one) => one === wanted
}

const code = (character: string) => `\\u{${character.codePointAt(0)?.toString(16)}}`

/** Parses a class such as `\d`, `\W`, `\pL`, `\P{Greek}` or `\p{^Greek}`; undefined for any other text. */
export function perlClass(reader: Reader): Characters | undefined {
  const letter = reader.take(/\\([dDsSwW])/y)?.[1]
  if (letter) return { body: perl[letter.toLowerCase()] ?? "", isOthers: /[A-Z]/.test(letter) }
  const property = reader.take(/\\([pP])(?:\{(\^?)(\w+)\}|([A-Z]))/y)
  if (!property) return undefined
  const [text, kind, negation, long, short] = property
  return { body: propertyNamed(long ?? short ?? "", text), isOthers: (kind === "P") !== (negation === "^") }
}

/** Returns JavaScript's name for a category or a script of Unicode, which JavaScript, unlike RE2, distinguishes. */
function propertyNamed(name: string, text: string): string {
  for (const body of [`\\p{${name}}`, `\\p{Script=${name}}`]) {
    try {
      new RegExp(`[${body}]`, "u")
      return body
    } catch {} // JavaScript knows no category or script of this name
  }
  return refuse(`cannot use ${text}`)
}

/** Returns the character of an escape sequence; undefined if the text does not continue with one. */
export function escapedCharacter(reader: Reader): string | undefined {
  const found = reader.take(
    /\\(?:x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|(0[0-7]{0,2}|[1-7][0-7]{1,2})|([afnrtv])|([^0-9A-Za-z]))/uy,
  )
  if (!found) {
    const other = reader.take(/\\.?/suy)?.[0]
    return other === undefined ? undefined : refuse(other === "\\" ? "trailing \\" : `cannot use ${other}`)
  }
  const [text, long, short, octal, letter, itself] = found
  if (letter) return named[letter]
  if (itself !== undefined) return itself
  const point = octal === undefined ? Number.parseInt(long ?? short ?? "", 16) : Number.parseInt(octal, 8)
  return point <= 0x10ffff ? String.fromCodePoint(point) : refuse(`cannot use ${text}`)
}

/** Parses the rest of a class after the opening bracket: `[^a-f[:digit:]\s]`. */
export function takeClass(reader: Reader, flags: Flags): Takes {
  const isNegated = reader.take(/\^/y) !== undefined
  const sets: Characters[] = []
  for (let first = true; first || !reader.take(/\]/y); first = false) {
    if (reader.isAtEnd) refuse("missing ]")
    sets.push(posixClass(reader) ?? perlClass(reader) ?? range(reader))
  }
  const together = sets.filter(({ isOthers }) => !isOthers).map(({ body }) => body)
  const others = sets.filter(({ isOthers }) => isOthers)
  const takes = charactersOf([{ body: together.join(""), isOthers: false }, ...others], flags)
  return isNegated ? (one) => !takes(one) : takes
}

function posixClass(reader: Reader): Characters | undefined {
  const found = reader.take(/\[:(\^?)(\w+):\]/y)
  if (!found) return undefined
  const [text, negation, name = ""] = found
  const body = Object.hasOwn(posix, name) ? posix[name] : undefined
  return { body: body ?? refuse(`cannot use ${text}`), isOthers: negation === "^" }
}

/** Parses one character of a class, or a range such as `a-f`. */
function range(reader: Reader): Characters {
  const one = () => escapedCharacter(reader) ?? reader.take(/./suy)?.[0] ?? refuse("missing ]")
  const first = one()
  if (!reader.take(/-(?!\])/y)) return { body: code(first), isOthers: false }
  const last = one()
  if ((first.codePointAt(0) ?? 0) > (last.codePointAt(0) ?? 0))
    refuse(`invalid character class range: ${first}-${last}`)
  return { body: `${code(first)}-${code(last)}`, isOthers: false }
}
