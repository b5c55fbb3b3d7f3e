/** The tokens that may follow at a position. */
type Expected = "value" | "value or ]" | "key" | "key or }" | "colon" | "comma or ]" | "comma or }" | "end"

const wanted: Record<Expected, string> = {
  value: "a value",
  "value or ]": 'a value or "]"',
  key: "a key in double quotes",
  "key or }": 'a key in double quotes or "}"',
  colon: '":"',
  "comma or ]": '"," or "]"',
  "comma or }": '"," or "}"',
  end: "nothing more",
}

/**
 * Returns position and reason of a syntax error in JSON: `line 3, column 7: expected ":", found "="`. Lines and columns
 * start at 1; columns are characters. Returns `undefined` for valid JSON. For error messages only: `JSON.parse` decides
 * whether a text is valid.
 */
export function locateJsonFault(text: string): string | undefined {
  if (text.length > longest) return undefined
  const open: string[] = []
  let expected: Expected = "value"
  const token = tokens()
  for (let at = 0; ; at = token.lastIndex) {
    token.lastIndex = at
    const match = token.exec(text)
    const next: Expected | undefined = match ? step(expected, match, open) : undefined
    if (next === undefined) return fault(text, at, expected)
    expected = next
  }
}

/**
 * The length above which a text is not analyzed, because the engine remembers each character of a string that it
 * matches.
 */
const longest = 256 << 10

/** Returns the expression for a token of RFC 8259: white space, then a sign, a string, or another scalar. */
function tokens(): RegExp {
  const space = /[ \t\n\r]*/.source
  const sign = /[[\]{},:]/.source
  // biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids exactly these inside a string
  const string = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/.source
  const scalar = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.])/.source
  return new RegExp(`${space}(?:(${sign})|(${string})|(${scalar}))`, "y")
}

/** Returns the tokens that may follow this token, or `undefined` if this token is not allowed here. */
function step(expected: Expected, match: RegExpExecArray, open: string[]): Expected | undefined {
  const [, mark, text, other] = match
  const isValue = expected === "value" || expected === "value or ]"
  if (other !== undefined) return isValue ? after(open) : undefined
  if (text !== undefined) {
    if (expected === "key" || expected === "key or }") return "colon"
    return isValue ? after(open) : undefined
  }
  switch (mark) {
    case "{":
    case "[":
      if (!isValue) return undefined
      open.push(mark)
      return mark === "{" ? "key or }" : "value or ]"
    case "}":
      if (expected !== "key or }" && expected !== "comma or }") return undefined
      open.pop()
      return after(open)
    case "]":
      if (expected !== "value or ]" && expected !== "comma or ]") return undefined
      open.pop()
      return after(open)
    case ",":
      if (expected === "comma or }") return "key"
      return expected === "comma or ]" ? "value" : undefined
    default:
      return expected === "colon" ? "value" : undefined
  }
}

function after(open: string[]): Expected {
  const innermost = open.at(-1)
  if (innermost === undefined) return "end"
  return innermost === "{" ? "comma or }" : "comma or ]"
}

function fault(text: string, from: number, expected: Expected): string | undefined {
  const at = text.slice(from).search(/[^ \t\n\r]/) + from
  const isEnd = at < from
  if (isEnd && expected === "end") return undefined
  const before = text.slice(0, isEnd ? text.length : at)
  const line = before.split("\n").length
  const column = [...before.slice(before.lastIndexOf("\n") + 1)].length + 1
  const found = isEnd ? "the end of the text" : describeToken(text.slice(at, at + 20))
  return `line ${line}, column ${column}: expected ${wanted[expected]}, found ${found}`
}

function describeToken(text: string): string {
  if (text.startsWith('"')) return "a string without an end or with an unescaped control character"
  return JSON.stringify(/^[\w.+-]+|^./su.exec(text)?.[0])
}
